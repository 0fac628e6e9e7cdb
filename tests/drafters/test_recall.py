"""Copying from texts of earlier runs."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafters.base import NO_DRAFT, Draft
from drafters.history.drafter import Recall
from drafters.suffix import chance_of_match, chance_of_resumption
from models.sampling.sampler import Sampler, SamplingParams

SAMPLER = Sampler(SamplingParams(seed=0))
END = 99


def recall(*texts: Sequence[int]) -> Recall:
    drafter = Recall(lambda token: token == END)
    for text in texts:
        drafter.learn(text)
    return drafter


def draft(prompt: Sequence[int], *texts: Sequence[int], limit: int = 4) -> Draft:
    drafter = recall(*texts)
    drafter.begin(prompt, SAMPLER)
    return drafter.propose(prompt, limit)


def test_what_followed_the_prompt_in_an_earlier_run_is_drafted() -> None:
    got = draft([9, 1, 2, 3], [8, 1, 2, 3, 4, 5, 6, 7])
    assert (got.tokens, got.source) == ((4, 5, 6, 7), "memory")
    assert got.confidence == tuple(chance_of_match(length, 1, 1) for length in (3, 4, 5, 6))


def test_a_match_of_two_tokens_is_too_short() -> None:
    assert draft([9, 2, 3], [8, 1, 2, 3, 4]) == NO_DRAFT
    assert draft([], [1, 2, 3]) == draft([1, 2, 3]) == NO_DRAFT


def test_where_a_long_match_ends_its_text_a_shorter_one_is_no_surer_for_it() -> None:
    long = [1, 2, 3, 4, 5, 6, 7]
    assert draft(long, long, [6, 7, 8]) == NO_DRAFT
    got = draft(long, long, [5, 6, 7, 8], limit=1)
    assert (got.tokens, got.confidence) == ((8,), (chance_of_match(3, 1, 1),))


def test_a_longer_match_wins_and_of_equals_the_later_text() -> None:
    texts = ([0, 1, 2, 3, 4, 4], [1, 2, 3, 5, 5], [1, 2, 3, 6, 6])
    assert draft([0, 1, 2, 3], *texts, limit=2).tokens == (4, 4)
    assert draft([7, 1, 2, 3], *texts, limit=2).tokens == (6, 6)


def test_nothing_crosses_the_border_of_a_text() -> None:
    assert draft([1, 2, 3], [1, 2, 3], [4, 5, 6]) == NO_DRAFT
    assert draft([1, 2, 3], [1, 2, 3, 4], [5, 6, 7]).tokens == (4,)
    assert draft([2, 3, 4, 5], [1, 2, 3, 4], [5, 6, 7]) == NO_DRAFT


def test_the_draft_stops_after_an_end_token() -> None:
    assert draft([1, 2, 3], [1, 2, 3, 4, END, 5]).tokens == (4, END)


def test_the_text_of_this_run_is_not_copied_from() -> None:
    drafter = recall([50, 51, 52, 53])
    drafter.begin([1, 2, 3, 4], SAMPLER)
    drafter.accept([1, 2, 3], 0)
    assert drafter.propose([1, 2, 3, 4, 1, 2, 3], 4) == NO_DRAFT


def test_a_copy_goes_on_after_a_change() -> None:
    text = list(range(20))
    drafter = recall(text)
    drafter.begin(text[:7], SAMPLER)
    drafter.accept([7, 70], 0)
    got = drafter.propose([*text[:8], 70], 3)
    assert (got.tokens, got.confidence[0]) == ((9, 10, 11), chance_of_resumption(1))


def test_a_new_answer_has_nothing_of_the_one_before() -> None:
    text = list(range(20))
    drafter = recall(text)
    drafter.begin(text[:8], SAMPLER)
    drafter.begin([8, 9], SAMPLER)
    assert drafter.propose([8, 9], 4) == NO_DRAFT
    drafter.begin([*text[:8], 70], SAMPLER)
    assert drafter.propose([*text[:8], 70], 4) == NO_DRAFT
    drafter.accept([71], 0)
    assert drafter.propose([*text[:8], 70, 71], 4) == NO_DRAFT


def test_the_end_of_a_long_prompt_is_enough() -> None:
    text = list(range(100, 400))
    assert draft([7] * 5000 + text[:250], text).tokens == tuple(text[250:254])


def test_what_is_closed_is_forgotten() -> None:
    drafter = recall([1, 2, 3, 4])
    drafter.begin([1, 2, 3], SAMPLER)
    drafter.close()
    assert drafter.propose([1, 2, 3], 4) == NO_DRAFT
    drafter.begin([1, 2, 3], SAMPLER)
    assert drafter.propose([1, 2, 3], 4) == NO_DRAFT


def longest_match(texts: Sequence[Sequence[int]], prompt: Sequence[int]) -> int:
    """Return the length of the longest end of a prompt that stands in a text, with something after it."""
    for length in range(len(prompt), 0, -1):
        end = list(prompt[-length:])
        if any(list(text[at : at + length]) == end for text in texts for at in range(len(text) - length)):
            return length
    return 0


tokens = st.lists(st.integers(0, 3), max_size=30)


@given(st.lists(tokens, max_size=4), tokens, st.lists(tokens, min_size=1, max_size=3))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_it_drafts_what_followed_the_longest_match(
    texts: list[list[int]], prompt: list[int], rounds: list[list[int]]
) -> None:
    drafter = recall(*texts)
    drafter.begin(prompt, SAMPLER)
    context = list(prompt)
    for emitted in rounds:
        length = longest_match(texts, context)
        got = drafter.propose(context, 1)
        assert got == drafter.propose(context, 1)
        if length >= 3:
            end = context[-length:]
            followed = {
                text[at + length] for text in texts for at in range(len(text) - length) if text[at : at + length] == end
            }
            assert got.tokens[0] in followed or got.confidence[0] in [chance_of_resumption(n) for n in range(1, 40)]
        drafter.accept(emitted, 0)
        context += emitted


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_draft_keeps_to_its_limit(limit: int) -> None:
    assert len(draft([1, 2, 3], list(range(20)), limit=limit).tokens) == limit


def test_a_period_in_an_old_text_ends_with_it() -> None:
    got = draft([1, 2, 1, 2], [1, 2] * 5, limit=20)
    assert all(left != right for left, right in pairwise(got.tokens))
