"""Prompt lookup against a search by brute force, and the work it does to avoid one."""

from collections.abc import Sequence

import pytest
from checking import FIXED
from hypothesis import example, given
from hypothesis import strategies as st

from drafters.prompt_lookup import PromptLookup
from models.sampling.sampler import Sampler, SamplingParams

SAMPLER = Sampler(SamplingParams())
END = 9
RECENT, LONGEST = 64, 32


def is_end(token: int) -> bool:
    return token == END


def lookup_of(tokens: Sequence[int], shortest: int = 3) -> PromptLookup:
    lookup = PromptLookup(is_end, shortest)
    lookup.begin(tokens, SAMPLER)
    return lookup


def draft(tokens: Sequence[int], limit: int = 8, shortest: int = 3) -> tuple[int, ...]:
    return lookup_of(tokens, shortest).propose(tokens, limit).tokens


def match_length(tokens: Sequence[int], place: int) -> int:
    """Return how many tokens before `place` equal those at the end of the text."""
    length = 0
    while length < place and tokens[place - 1 - length] == tokens[len(tokens) - 1 - length]:
        length += 1
    return length


def by_brute_force(tokens: Sequence[int], limit: int, shortest: int) -> tuple[int, ...]:
    """Try every place; the latest of the longest matches wins, among the most recent and up to the cap."""
    matches = [(match_length(tokens, place), place) for place in range(1, len(tokens))]
    matches = [(min(length, max(LONGEST, shortest)), place) for length, place in matches if length >= shortest]
    if not matches:
        return ()
    _, place = max(matches[-RECENT:])
    text = list(tokens)
    while len(text) < len(tokens) + limit and (len(text) == len(tokens) or not is_end(text[-1])):
        text.append(text[place + len(text) - len(tokens)])
    return tuple(text[len(tokens) :])


few_tokens = st.lists(st.integers(0, 2) | st.just(END), max_size=60)
periodic = st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(1, 30)).map(lambda p: p[0] * p[1])
pieces = st.lists(few_tokens | periodic, max_size=4)
texts = pieces.map(lambda parts: [token for part in parts for token in part])


@given(texts, st.integers(0, 12), st.integers(1, 4))
@example([0] * 200, 12, 1)
@example([0] * 40 + [1] + [0] * 35 + [2] + [0] * 34, 4, 3)
@FIXED
def test_the_draft_follows_the_latest_of_the_longest_matches(tokens: list[int], limit: int, shortest: int) -> None:
    assert draft(tokens, limit, shortest) == by_brute_force(tokens, limit, shortest)


@given(texts, st.lists(st.integers(1, 20), max_size=20), st.integers(1, 4))
@FIXED
def test_a_text_that_comes_in_pieces_is_known_as_one_that_comes_whole(
    tokens: list[int], sizes: list[int], shortest: int
) -> None:
    first, rest = tokens[: len(tokens) // 3], tokens[len(tokens) // 3 :]
    lookup = lookup_of(first, shortest)
    for size in sizes:
        lookup.accept(rest[:size], 0)
        rest = rest[size:]
    lookup.begin(tokens, SAMPLER)
    assert lookup.propose(tokens, 8) == lookup_of(tokens, shortest).propose(tokens, 8)


def test_a_longer_match_wins_over_a_later_one() -> None:
    assert draft([5, 1, 2, 3, 7, 7, 7, 6, 1, 2, 3, 8, 8, 8, 5, 1, 2, 3], limit=3) == (7, 7, 7)


def test_the_later_of_two_equal_matches_wins() -> None:
    assert draft([1, 2, 3, 7, 7, 1, 2, 3, 8, 8, 1, 2, 3], limit=2) == (8, 8)


def test_a_match_shorter_than_the_shortest_is_no_match() -> None:
    tokens = [1, 2, 3, 8, 4, 2, 3]
    assert draft(tokens, shortest=3) == ()
    assert draft(tokens, limit=2, shortest=2) == (8, 4)


@pytest.mark.parametrize("tokens", [[], [1], [1, 1], [1, 2, 3]])
def test_a_text_too_short_to_repeat_gives_no_draft(tokens: list[int]) -> None:
    assert draft(tokens) == ()


def test_a_period_goes_on_past_the_end_of_the_text() -> None:
    assert draft([1, 2, 1, 2, 1, 2], limit=7) == (1, 2, 1, 2, 1, 2, 1)
    assert draft([4, 4, 4, 4], limit=5) == (4, 4, 4, 4, 4)


def test_the_draft_stops_after_an_end_token() -> None:
    assert draft([1, 2, 3, 4, END, 5, 1, 2, 3]) == (4, END)


def test_matches_older_than_the_most_recent_64_are_not_looked_at() -> None:
    oldest = [6, 1, 2, 3, 7]
    newer = [5, 1, 2, 3, 8]
    end = [6, 1, 2, 3]
    assert draft(oldest + newer * (RECENT - 1) + end, limit=1) == (7,)
    assert draft(oldest + newer * RECENT + end, limit=1) == (8,)


def test_a_match_of_32_tokens_is_as_good_as_a_longer_one() -> None:
    stretch = list(range(100, 140))
    older, newer = [*stretch, 1], [*stretch[-LONGEST:], 2]
    assert draft([*older, *newer, *stretch], limit=1) == (2,)
    newer = [*stretch[-LONGEST + 1 :], 2]
    assert draft([*older, *newer, *stretch], limit=1) == (1,)


class CountingLookup(PromptLookup):
    """Counts the tokens that were indexed."""

    added = 0

    def _add(self, tokens: Sequence[int]) -> None:
        self.added += len(tokens)
        super()._add(tokens)


def test_a_prompt_that_continues_the_last_one_is_indexed_from_its_new_end_on() -> None:
    lookup = CountingLookup(is_end)
    lookup.begin([1, 2, 3, 4], SAMPLER)
    lookup.accept([5, 6], 1)
    lookup.begin([1, 2, 3, 4, 5, 6, 7], SAMPLER)
    assert lookup.added == 7
    lookup.begin([1, 2, 3, 4, 5, 6, 7], SAMPLER)
    assert lookup.added == 7


@pytest.mark.parametrize("prompt", [[1, 2, 3, 4, 6, 6, 6, 6], [1, 2, 3], [2, 3, 4, 5]])
def test_a_prompt_that_differs_starts_over(prompt: list[int]) -> None:
    lookup = CountingLookup(is_end)
    lookup.begin([1, 2, 3, 4, 5], SAMPLER)
    lookup.begin(prompt, SAMPLER)
    assert lookup.added == 5 + len(prompt)
    lookup.accept([1, 2, 3], 0)
    text = [*prompt, 1, 2, 3]
    assert lookup.propose(text, 4) == lookup_of(text).propose(text, 4)


def test_each_token_costs_one_entry_whatever_the_text() -> None:
    for tokens in ([0] * 500, list(range(500)), [0, 1] * 250):
        lookup = lookup_of(tokens)
        assert len(lookup._earlier) == 500
        assert len(lookup._latest) <= 500
        lookup.accept([0], 0)
        assert len(lookup._earlier) == 501


def test_the_end_of_a_long_run_is_compared_at_few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = lookup_of([*range(100), 0, *[1, 2, 3] * 1000, 50, 1, 2, 3])
    compared = []
    measure = lookup._common_suffix
    monkeypatch.setattr(lookup, "_common_suffix", lambda place: compared.append(place) or measure(place))
    lookup.propose(lookup._tokens, 4)
    assert len(compared) == RECENT


def test_proposing_learns_nothing() -> None:
    tokens = [1, 2, 3, 4, 1, 2, 3]
    lookup = CountingLookup(is_end)
    lookup.begin(tokens, SAMPLER)
    assert lookup.propose(tokens, 4).tokens == lookup.propose(tokens, 4).tokens == (4, 1, 2, 3)
    assert lookup.added == len(tokens)
