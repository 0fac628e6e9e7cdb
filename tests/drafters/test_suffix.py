"""The suffix drafter: what it copies, how sure it says it is, and what it keeps between answers."""

from collections.abc import Sequence

import pytest
from checking import FIXED
from fakes import Case, differences
from hypothesis import given
from hypothesis import strategies as st

from drafters.automaton import BORDER
from drafters.base import NO_DRAFT, Draft
from drafters.suffix import SuffixDrafter, chance_of_match, chance_of_resumption
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyVocab

SAMPLER = Sampler(SamplingParams())
END = 9


def is_end(token: int) -> bool:
    return token == END


def drafter_of(tokens: Sequence[int], *references: Sequence[int]) -> SuffixDrafter:
    drafter = SuffixDrafter(is_end)
    for reference in references:
        drafter.learn(reference)
    drafter.begin(tokens, SAMPLER)
    return drafter


def draft(tokens: Sequence[int], *references: Sequence[int], limit: int = 8) -> Draft:
    return drafter_of(tokens, *references).propose(tokens, limit)


def next_by_brute_force(indexed: Sequence[int], text: Sequence[int]) -> int | None:
    """Return the token after the latest occurrence of the longest end of a text that goes on somewhere."""
    for size in range(len(text), 0, -1):
        for end in range(len(indexed) - 1, size - 1, -1):
            if list(indexed[end - size : end]) == list(text[-size:]) and indexed[end] != BORDER:
                return indexed[end]
    return None


def by_brute_force(text: Sequence[int], references: Sequence[Sequence[int]], limit: int) -> tuple[int, ...]:
    indexed = [token for reference in references for token in (*reference, BORDER)] + list(text)
    proposals: list[int] = []
    while len(proposals) < limit and END not in proposals:
        token = next_by_brute_force(indexed, [*text, *proposals])
        if token is None:
            break
        proposals.append(token)
    return tuple(proposals)


few_tokens = st.lists(st.integers(0, 2) | st.just(END), max_size=40)
periodic = st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(1, 8)).map(lambda p: p[0] * p[1])
texts = st.lists(few_tokens | periodic, max_size=3).map(lambda parts: [token for part in parts for token in part])


@given(texts, st.lists(texts, max_size=2), st.integers(0, 12))
@FIXED
def test_the_draft_follows_the_latest_of_the_longest_matches(
    tokens: list[int], references: list[list[int]], limit: int
) -> None:
    references = [reference for reference in references if reference]
    assert draft(tokens, *references, limit=limit).tokens == by_brute_force(tokens, references, limit)


def test_a_match_of_one_token_is_a_draft_of_little_confidence() -> None:
    first = draft([1, 2, 3, 1], limit=1)
    assert first.tokens == (2,)
    assert first.confidence[0] < 0.4
    assert draft([1, 2, 3]) == NO_DRAFT
    assert draft([]) == NO_DRAFT


def test_a_longer_match_wins_over_a_later_one_and_the_later_of_two_equals() -> None:
    assert draft([5, 1, 2, 7, 7, 6, 2, 8, 8, 5, 1, 2], limit=2).tokens == (7, 7)
    assert draft([1, 2, 7, 7, 1, 2, 8, 8, 1, 2], limit=2).tokens == (8, 8)


def test_a_period_goes_on_past_the_end_of_the_text() -> None:
    assert draft([1, 2, 1, 2, 1, 2], limit=7).tokens == (1, 2, 1, 2, 1, 2, 1)
    assert draft([4, 4], limit=5).tokens == (4, 4, 4, 4, 4)


def test_the_draft_stops_after_an_end_token() -> None:
    assert draft([1, 2, 3, 4, END, 5, 1, 2, 3]).tokens == (4, END)


def test_no_match_and_no_draft_crosses_the_border_of_a_text() -> None:
    assert draft([3, 1], [1, 2], [4, 5]).tokens == (2,)
    assert draft([2], [1, 2], [3, 4]) == NO_DRAFT
    # Together the references hold 1 2 3 4, apart 3 4 follows nothing.
    assert draft([1, 2, 3], [1, 2], [3, 4], limit=1).confidence == draft([3], [3, 4], limit=1).confidence


def test_a_reference_is_copied_from() -> None:
    assert draft([7, 1, 2], [1, 2, 3, 4, 5, 6], limit=3).tokens == (3, 4, 5)


def test_a_reference_learnt_after_an_answer_does_not_go_on_from_it() -> None:
    drafter = drafter_of([1, 2])
    drafter.learn([3, 4])
    drafter.begin([5, 2], SAMPLER)
    assert drafter.propose([5, 2], 4) == NO_DRAFT


def test_a_prompt_that_continues_the_last_answer_adds_its_new_end_alone() -> None:
    drafter = drafter_of([1, 2, 3, 4])
    drafter.accept([5, 6], 1)
    drafter.begin([1, 2, 3, 4, 5, 6, 7], SAMPLER)
    assert drafter.size == 7
    drafter.begin([1, 2, 3, 4, 5, 6, 7], SAMPLER)
    assert drafter.size == 7
    drafter.accept([1, 2], 0)
    text = [1, 2, 3, 4, 5, 6, 7, 1, 2]
    assert drafter.propose(text, 3).tokens == draft(text, limit=3).tokens == (3, 4, 5)


@pytest.mark.parametrize("prompt", [[1, 2, 3, 8], [1, 2, 3], [6, 2, 3]])
def test_a_prompt_that_differs_starts_a_text_and_keeps_the_old_one(prompt: list[int]) -> None:
    drafter = drafter_of([1, 2, 3, 4])
    drafter.accept([5, 6, 7], 0)
    drafter.begin(prompt, SAMPLER)
    assert drafter.size == 7 + 1 + len(prompt)
    drafter.accept([5, 6], 0)
    assert drafter.propose([*prompt, 5, 6], 3).tokens[:1] == (7,)


def test_the_same_prompt_again_drafts_the_old_answer() -> None:
    drafter = drafter_of([1, 2, 3])
    drafter.accept([4, 5, 6], 0)
    drafter.begin([1, 2, 3], SAMPLER)
    assert drafter.propose([1, 2, 3], 3).tokens == (4, 5, 6)


@given(texts, st.integers(0, 12))
@FIXED
def test_proposing_changes_nothing(tokens: list[int], limit: int) -> None:
    asked, silent = drafter_of(tokens), drafter_of(tokens)
    for token in [*tokens[:10], 1, 2]:
        assert asked.propose(tokens, limit) == asked.propose(tokens, limit)
        for drafter in (asked, silent):
            drafter.accept([token], 0)
    assert asked.propose(tokens, 8) == silent.propose(tokens, 8)
    assert asked.size == silent.size


def test_what_is_closed_is_forgotten() -> None:
    drafter = drafter_of([1, 2, 1, 2])
    drafter.close()
    assert drafter.size == 0
    assert drafter.propose([1, 2, 1, 2], 4) == NO_DRAFT


def test_past_the_most_tokens_the_older_half_is_forgotten() -> None:
    drafter = SuffixDrafter(is_end, most_tokens=40)
    drafter.learn(list(range(100, 118)))
    drafter.learn(list(range(200, 218)))
    assert drafter.size == 38
    drafter.begin([102, 103], SAMPLER)
    assert drafter.size == 38 + 2, "it fits just so"
    drafter.begin([110, 111], SAMPLER)
    assert drafter.size == 20 + 1 + 2
    assert drafter.propose([110, 111], 2) == NO_DRAFT
    drafter.begin([210, 211], SAMPLER)
    assert drafter.propose([210, 211], 2).tokens == (212, 213)


def test_an_answer_may_go_past_the_most_tokens_and_the_next_prompt_pays() -> None:
    drafter = SuffixDrafter(is_end, most_tokens=10)
    drafter.begin([1, 2, 3], SAMPLER)
    drafter.accept(list(range(20, 40)), 0)
    assert drafter.size == 23
    prompt = [1, 2, 3, *range(20, 40), 4]
    drafter.begin(prompt, SAMPLER)
    assert drafter.size == 5 + 1 + len(prompt)
    assert drafter.propose(prompt, 2) == NO_DRAFT


@given(st.lists(st.integers(0, 4), min_size=30, max_size=90), st.integers(2, 9))
def test_who_is_asked_seldom_guesses_as_one_who_is_asked_after_every_token(text: list[int], pause: int) -> None:
    often, seldom = SuffixDrafter(is_end), SuffixDrafter(is_end)
    for drafter in (often, seldom):
        drafter.begin(text[:20], SAMPLER)
    for place in range(20, len(text)):
        wanted = often.propose(text[:place], 8)
        if place % pause == 0:
            assert seldom.propose(text[:place], 8) == wanted
        for drafter in (often, seldom):
            drafter.accept(text[place : place + 1], 0)
    assert seldom.size == often.size
    for drafter in (often, seldom):
        drafter.begin([*text, 1], SAMPLER)
    assert seldom.propose([*text, 1], 8) == often.propose([*text, 1], 8)


def test_a_reference_comes_after_what_was_said_before_it() -> None:
    drafter = SuffixDrafter(is_end)
    drafter.begin([1, 2, 3], SAMPLER)
    drafter.accept([4, 5], 0)
    drafter.learn([7, 8])
    drafter.begin([2, 3], SAMPLER)
    assert drafter.propose([2, 3], 2).tokens == (4, 5)


def test_a_reference_makes_room_for_itself() -> None:
    drafter = SuffixDrafter(is_end, most_tokens=40)
    for start in range(100, 1000, 100):
        drafter.learn(list(range(start, start + 15)))
        assert drafter.size <= 40


def test_of_a_reference_that_is_too_long_the_end_is_kept() -> None:
    drafter = SuffixDrafter(is_end, most_tokens=10)
    drafter.learn(list(range(100, 130)))
    assert drafter.size == 5 + 1
    drafter.begin([127], SAMPLER)
    assert drafter.propose([127], 8).tokens == (128, 129)


@given(texts, st.integers(0, 12))
@FIXED
def test_each_token_of_a_draft_has_a_chance(tokens: list[int], limit: int) -> None:
    got = draft(tokens, limit=limit)
    assert len(got.confidence) == len(got.tokens)
    assert all(0 < chance < 1 for chance in got.confidence)
    assert got.source == ("suffix" if got.tokens else NO_DRAFT.source)


def test_more_evidence_never_lowers_the_chance() -> None:
    by_length = [chance_of_match(length, 1, 1) for length in range(1, 40)]
    by_count = [chance_of_match(3, count, count) for count in range(1, 40)]
    by_share = [chance_of_match(3, 40, followed) for followed in range(41)]
    by_evidence = [chance_of_resumption(evidence) for evidence in range(1, 40)]
    for chances in (by_length, by_count, by_share, by_evidence):
        assert chances == sorted(chances)
        assert chances[0] < chances[-1]
        assert all(0 < chance < 1 for chance in chances)


def test_the_chance_of_a_draft_is_that_of_its_match() -> None:
    alone = draft([5, 1, 2, 3, 7, 6, 1, 2], limit=2).confidence
    assert alone == (chance_of_match(2, 1, 1), chance_of_match(3, 1, 1))
    twice = draft([5, 1, 2, 3, 6, 1, 2, 3, 7, 1, 2], limit=1).confidence
    assert twice == (chance_of_match(2, 2, 2),)
    divided = draft([1, 2, 3, 6, 1, 2, 4, 7, 1, 2], limit=1).confidence
    assert divided == (chance_of_match(2, 2, 1),)


def test_a_draft_that_goes_on_past_the_end_of_a_text_is_as_sure_as_the_shorter_match_that_is_left() -> None:
    found = draft([1, 2, 3], [1, 2, 3, 4], [4, 6, 7], limit=3)
    assert found.tokens == (4, 6, 7)
    assert found.confidence == (chance_of_match(3, 1, 1), chance_of_match(1, 1, 1), chance_of_match(2, 1, 1))


def test_the_text_of_a_toy_is_that_of_plain_decoding() -> None:
    prompts = [tuple(ToyVocab().tokenize(text)) for text in ("the cat sat on the mat. the cat", "een teen teen teen")]
    samplings = [SamplingParams(temperature, seed=3) for temperature in (0.0, 0.7)]
    cases = [Case(prompt, sampling) for prompt in prompts for sampling in samplings]
    assert differences(cases, lambda _, target, __: SuffixDrafter(target.vocab.is_end), (1, 4, 8)) == []
    assert differences(cases, lambda _, target, __: SuffixDrafter(target.vocab.is_end, most_tokens=8), (4,)) == []


def test_what_a_text_shares_with_the_latest_is_indexed_once_and_still_copied_from() -> None:
    drafter = SuffixDrafter(lambda _: False)
    shared = list(range(1000, 3000))
    drafter.begin([*shared, 1, 2, 3], SAMPLER)
    before = drafter.size
    for key in range(100):
        # As an editor asks while a user types in the middle of a text.
        prompt = [*shared, *range(10, 11 + key), 5, 6]
        drafter.begin(prompt, SAMPLER)
    assert drafter.size < before + 100 * (100 + 64 + 4)
    drafter.begin([*shared, 1500, 1501], SAMPLER)
    assert drafter.propose([*shared, 1500, 1501], 4).tokens == (1502, 1503, 1504, 1505)


def test_after_learning_a_text_the_next_prompt_is_a_text_of_its_own() -> None:
    drafter = SuffixDrafter(lambda _: False)
    drafter.begin([1, 2, 3], SAMPLER)
    drafter.learn([7, 8, 9])
    drafter.begin([1, 2, 7], SAMPLER)
    assert drafter.propose([1, 2, 7], 2).tokens == (8, 9)
    drafter.begin([1, 2, 3], SAMPLER)
    assert drafter.propose([1, 2, 3], 2).tokens == ()
