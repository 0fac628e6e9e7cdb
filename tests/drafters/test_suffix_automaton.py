"""The suffix automaton against a search by brute force, over several texts."""

from collections.abc import Sequence

import pytest
from checking import FIXED
from hypothesis import example, given
from hypothesis import strategies as st

from drafters.automaton import BORDER, ROOT, SuffixAutomaton

few_tokens = st.lists(st.integers(0, 2), max_size=30)
periodic = st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(1, 8)).map(lambda p: p[0] * p[1])
pieces = st.lists(few_tokens | periodic | st.just([BORDER]), max_size=6)
texts = pieces.map(lambda parts: [token for part in parts for token in part])


def automaton_of(tokens: Sequence[int]) -> SuffixAutomaton:
    automaton = SuffixAutomaton()
    automaton.extend(tokens)
    return automaton


def occurrences(tokens: Sequence[int], string: Sequence[int]) -> list[int]:
    """Return the places of the tokens that follow a string, where one of the same text does."""
    size = len(string)
    ends = range(size, len(tokens))
    return [end for end in ends if list(tokens[end - size : end]) == list(string) and tokens[end] != BORDER]


def longest_match(tokens: Sequence[int], ends: Sequence[int]) -> tuple[int, list[int]]:
    """Return the length of the longest end of `ends` that is continued in `tokens`, and where."""
    for size in range(len(ends), 0, -1):
        places = [] if BORDER in ends[-size:] else occurrences(tokens, ends[-size:])
        if places:
            return size, places
    return 0, []


@given(texts)
@example([0, 1, BORDER, 2, 0, 1])
@example([0, 1, 5, BORDER, 0, 1, BORDER, 3, 0, 1])
@example([0] * 60)
@FIXED
def test_the_match_is_the_longest_and_knows_where_it_occurred_last_and_how_often(tokens: list[int]) -> None:
    automaton = automaton_of(tokens)
    length, places = longest_match(automaton.tokens, automaton.tokens)
    state = automaton.longest_match()
    assert automaton.length[state] == length
    if places:
        assert automaton.latest[state] == places[-1]
        assert automaton.count[state] == len(places)
        followers = {automaton.tokens[place] for place in places}
        assert automaton.is_unanimous(state) == (len(followers) == 1)
        assert {token for token in range(6) if automaton.step(state, token) != ROOT} == followers


@given(texts)
@FIXED
def test_every_stretch_of_every_text_and_nothing_else_can_be_walked(tokens: list[int]) -> None:
    automaton = automaton_of(tokens)
    for start in range(min(10, len(tokens))):
        state = ROOT
        for token in tokens[start : start + 12]:
            if token == BORDER:
                break
            state = automaton.step(state, token)
            assert state != ROOT
    for string in ([0, 0, 1], [1, 2], [2, 1, 0], [0, 1, 2, 0]):
        occurs = any(list(tokens[place : place + len(string)]) == string for place in range(len(tokens)))
        state = ROOT
        for token in string:
            state = automaton.step(state, token)
            if state == ROOT:
                break
        assert (state != ROOT) == occurs


@pytest.mark.parametrize("continuations", [1, 2, 8, 9, 10, 40])
def test_a_state_with_any_number_of_continuations_finds_each(continuations: int) -> None:
    tokens = [token for last in range(continuations) for token in (500, 501, 100 + last)]
    automaton = automaton_of([*tokens, 499, 501, 777])
    longer = automaton.step(automaton.step(ROOT, 500), 501)
    shorter = automaton.step(ROOT, 501)
    for state in (longer, shorter):
        assert all(automaton.step(state, 100 + last) != ROOT for last in range(continuations))
        assert automaton.step(state, 100 + continuations) == ROOT
    assert automaton.step(longer, 777) == ROOT != automaton.step(shorter, 777)
    assert automaton.is_unanimous(longer) == (continuations == 1)
    assert not automaton.is_unanimous(shorter)


def test_there_are_at_most_two_states_and_three_edges_a_token() -> None:
    for tokens in ([0] * 500, list(range(500)), [0, 1] * 250, [0] + [1] * 499):
        automaton = automaton_of(tokens)
        assert len(automaton.length) <= 2 * len(tokens)
        assert len(automaton._edge_token) + sum(map(len, automaton._wide.values())) <= 3 * len(tokens) + 10


def test_texts_that_are_empty_leave_no_border() -> None:
    assert list(automaton_of([BORDER, 1, BORDER, BORDER, 2]).tokens) == [1, BORDER, 2]


def test_a_long_run_is_not_counted_all_the_way_down_for_each_of_its_tokens() -> None:
    automaton = automaton_of([0] * 200)
    assert automaton.length[automaton.longest_match()] == 199
    one = automaton.step(ROOT, 0)
    assert automaton.count[one] < 40
