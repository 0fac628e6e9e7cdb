"""A copy that is changed in one place: where the suffix drafter goes on after it."""

from collections.abc import Sequence

import pytest

from drafters.base import NO_DRAFT
from drafters.suffix import SuffixDrafter, chance_of_match, chance_of_resumption
from models.sampling.sampler import Sampler, SamplingParams

SAMPLER = Sampler(SamplingParams())
END = 9
SOURCE = list(range(100, 150))
COPIED = SOURCE[:10]
NEW = 7
# Places that a match of one token would rather copy, for they are later.
DECOYS = [110, 60, 111, 60, 112, 60, 113, 60, 114, 60]


def drafter_after(answer: Sequence[int], prompt: Sequence[int] = (*SOURCE, *DECOYS)) -> SuffixDrafter:
    drafter = SuffixDrafter(lambda token: token == END)
    drafter.begin(prompt, SAMPLER)
    drafter.accept(answer, 0)
    return drafter


def draft_after(answer: Sequence[int], limit: int = 3) -> tuple[int, ...]:
    return drafter_after(answer).propose([], limit).tokens


def test_without_a_change_the_match_is_followed() -> None:
    assert draft_after(COPIED) == (110, 111, 112)


def test_after_a_replaced_token_the_source_goes_on_behind_it() -> None:
    draft = drafter_after([*COPIED, NEW]).propose([], 3)
    assert draft.tokens == (111, 112, 113)
    assert draft.confidence == tuple(chance_of_resumption(evidence) for evidence in (1, 2, 3))


def test_a_place_that_comes_true_gains_confidence() -> None:
    draft = drafter_after([*COPIED, NEW, 111]).propose([], 1)
    assert draft.tokens == (112,)
    assert draft.confidence == (chance_of_resumption(2),)


def test_a_copy_that_was_found_again_goes_on_with_all_that_spoke_for_it() -> None:
    draft = drafter_after([*COPIED, NEW, *SOURCE[11:14]]).propose([], 2)
    assert draft.tokens == (114, 115)
    assert draft.confidence == (chance_of_resumption(4), chance_of_resumption(5))


def test_two_tokens_from_further_on_are_not_the_source_again() -> None:
    assert draft_after([*COPIED, NEW, 120, 121]) == (122, 123, 124)
    assert draft_after([*COPIED, NEW, 120, 121, 110]) == (111, 112, 113)


@pytest.mark.parametrize("inserted", [1, 2, 5, 10])
def test_after_inserted_tokens_the_source_goes_on_where_it_was(inserted: int) -> None:
    assert draft_after([*COPIED, *range(50, 50 + inserted), 110]) == (111, 112, 113)


@pytest.mark.parametrize("deleted", [1, 2, 4])
def test_after_deleted_tokens_the_source_goes_on_behind_them(deleted: int) -> None:
    found = 110 + deleted
    assert draft_after([*COPIED, found]) == (found + 1, found + 2, found + 3)


def test_several_tokens_may_be_replaced_by_as_many() -> None:
    assert draft_after([*COPIED, 50, 51, 52, 113]) == (114, 115, 116)


def test_a_change_soon_after_a_change_is_followed_too() -> None:
    found_again = [*COPIED, NEW, *SOURCE[11:14]]
    assert draft_after([*found_again, 8]) == (115, 116, 117)


def test_a_change_right_after_a_change_is_looked_for_from_the_first() -> None:
    assert draft_after([*COPIED, NEW, 111, 8, 113]) == (114, 115, 116)


def test_a_match_that_says_more_wins() -> None:
    elsewhere = [*SOURCE, 50, NEW, 51, 52, *range(60, 66)]
    drafter = drafter_after([*COPIED, NEW], elsewhere)
    assert drafter.propose([], 1).tokens == (111,), "one token either way, and it says a little less of the match"
    drafter = drafter_after([*COPIED, 50, NEW], elsewhere)
    draft = drafter.propose([], 2)
    assert draft.tokens == (51, 52)
    assert draft.confidence[0] == chance_of_match(2, 1, 1)


def test_a_copy_that_does_not_come_back_is_given_up() -> None:
    answer = [*COPIED, *range(300, 312)]
    assert draft_after([*answer, 111]) == (60, 112, 60)
    assert draft_after([*answer[:-1], 111]) == (112, 113, 114)


def test_a_place_too_far_behind_the_change_is_not_looked_at() -> None:
    far = [*SOURCE, 125, 60, 126, 60]
    assert drafter_after([*COPIED, NEW, 125], far).propose([], 1).tokens == (126,)
    assert drafter_after([*COPIED, NEW, 126], far).propose([], 1).tokens == (60,)


def test_a_few_equal_tokens_are_no_copy() -> None:
    assert draft_after([*SOURCE[5:10], NEW]) == ()
    assert draft_after([*SOURCE[4:10], NEW]) == (111, 112, 113)


def test_the_source_ends_with_its_text_and_with_an_end_token() -> None:
    drafter = SuffixDrafter(lambda token: token == END)
    drafter.learn(SOURCE[:12])
    drafter.learn([300, 301])
    drafter.begin([401], SAMPLER)
    drafter.accept([*COPIED, 8], 0)
    assert drafter.propose([], 8).tokens == (111,)
    ending = [*SOURCE[:12], END, *SOURCE[12:]]
    assert drafter_after([*COPIED, NEW], ending).propose([], 8).tokens == (111, END)


def test_the_latest_token_is_not_taken_for_its_own_source() -> None:
    drafter = drafter_after([*SOURCE[:7], NEW], SOURCE[:9])
    assert drafter.propose([], 3).tokens == (108, 100, 101)


def test_a_new_prompt_ends_a_copy() -> None:
    drafter = drafter_after([*COPIED, NEW])
    drafter.begin([301], SAMPLER)
    assert drafter.propose([301], 4) == NO_DRAFT
    drafter.accept([302], 0)
    assert drafter.propose([301, 302], 4) == NO_DRAFT


def test_the_tokens_of_a_round_are_followed_one_by_one() -> None:
    together = drafter_after([*COPIED, NEW, 111])
    apart = drafter_after([])
    for token in [*COPIED, NEW, 111]:
        apart.accept([token], 0)
    assert together.propose([], 8) == apart.propose([], 8)
