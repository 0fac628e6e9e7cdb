"""Where an answer ends: at the same token however the tokens came."""

from collections.abc import Sequence

import pytest
from checking import FIXED
from fakes import END
from hypothesis import given
from hypothesis import strategies as st

from app.engine.decoding.ending import Ending, Finish
from models.toy import ToyVocab

VOCAB = ToyVocab()
E_ACUTE = VOCAB.tokenize("é")


def ids(text: str) -> tuple[int, ...]:
    return tuple(VOCAB.tokenize(text))


def text_of(ending: Ending) -> str:
    ending.text.finish()
    return ending.text.take()


def test_a_round_without_an_end_is_kept_whole_and_the_answer_goes_on() -> None:
    ending = Ending(VOCAB, stops=["z"], budget=10)
    assert ending.cut(ids("abc")) == (ids("abc"), None)
    assert text_of(ending) == "abc"


def test_a_round_is_cut_after_an_end_token() -> None:
    ending = Ending(VOCAB)
    assert ending.cut([*ids("ab"), END, *ids("cd")]) == ((*ids("ab"), END), Finish.END)
    assert text_of(ending) == "ab"


def test_a_round_is_cut_after_the_token_that_completes_a_stop_string() -> None:
    ending = Ending(VOCAB, stops=["bc"])
    assert ending.cut(ids("abcd")) == (ids("abc"), Finish.STOP)
    assert text_of(ending) == "a"


def test_a_stop_string_may_begin_in_one_round_and_end_in_the_next() -> None:
    ending = Ending(VOCAB, stops=["bcd"])
    assert ending.cut(ids("ab")) == (ids("ab"), None)
    assert ending.text.take() == "a"
    assert ending.cut(ids("cde")) == (ids("cd"), Finish.STOP)
    assert text_of(ending) == ""


def test_the_first_of_several_stop_strings_to_be_completed_ends_the_answer() -> None:
    assert Ending(VOCAB, stops=["cd", "b", "z"]).cut(ids("abcd")) == (ids("ab"), Finish.STOP)


def test_a_round_is_cut_where_the_budget_ends() -> None:
    ending = Ending(VOCAB, budget=5)
    assert ending.cut(ids("abc")) == (ids("abc"), None)
    assert ending.cut(ids("defg")) == (ids("de"), Finish.LENGTH)
    assert text_of(ending) == "abcde"


def test_a_budget_of_one_is_one_token() -> None:
    assert Ending(VOCAB, budget=1).cut(ids("ab")) == (ids("a"), Finish.LENGTH)


def test_a_stop_string_completed_by_the_last_token_of_the_budget_is_what_is_named() -> None:
    assert Ending(VOCAB, stops=["c"], budget=3).cut(ids("abc")) == (ids("abc"), Finish.STOP)


def test_an_end_token_in_the_last_place_of_the_budget_is_what_is_named() -> None:
    assert Ending(VOCAB, budget=3).cut([*ids("ab"), END]) == ((*ids("ab"), END), Finish.END)


def test_an_end_token_is_no_part_of_the_text_and_completes_no_stop_string() -> None:
    ending = Ending(VOCAB, stops=["abc"])
    assert ending.cut([*ids("ab"), END])[1] is Finish.END
    assert text_of(ending) == "ab"


def test_without_a_budget_the_answer_may_be_of_any_length() -> None:
    ending = Ending(VOCAB)
    assert ending.cut(ids("abc") * 200) == (ids("abc") * 200, None)


def test_half_a_character_is_held_back_until_the_other_half_comes() -> None:
    ending = Ending(VOCAB)
    ending.cut(E_ACUTE[:1])
    assert ending.text.take() == ""
    ending.cut(E_ACUTE[1:])
    assert ending.text.take() == "é"


@pytest.mark.parametrize(
    ("budget", "wanted", "cap"), [(None, 7, 7), (None, 0, 0), (10, 7, 7), (8, 7, 7), (7, 7, 6), (1, 7, 0)]
)
def test_a_draft_leaves_room_in_the_budget_for_the_token_after_it(budget: int | None, wanted: int, cap: int) -> None:
    assert Ending(VOCAB, budget=budget).cap(wanted) == cap


def test_the_room_for_a_draft_shrinks_as_tokens_are_emitted() -> None:
    ending = Ending(VOCAB, budget=10)
    ending.cut(ids("abcd"))
    assert ending.cap(16) == 5


def in_rounds(
    tokens: Sequence[int], sizes: Sequence[int], ending: Ending
) -> tuple[tuple[int, ...], Finish | None, str]:
    """Feed tokens in rounds of these sizes, then of one; return the answer's tokens, its end and its text."""
    answer: tuple[int, ...] = ()
    left = list(tokens)
    sizes = [*sizes, *[1] * len(left)]
    finish = None
    while left and finish is None:
        size = sizes.pop(0)
        emitted, finish = ending.cut(left[:size])
        answer += emitted
        left = left[size:]
    return answer, finish, text_of(ending)


@given(
    st.lists(st.sampled_from([*ids("ab"), *E_ACUTE, END]), min_size=1, max_size=25),
    st.lists(st.integers(1, 8), max_size=8),
    st.lists(st.text("abé", min_size=1, max_size=3), max_size=3),
    st.one_of(st.none(), st.integers(1, 25)),
)
@FIXED
def test_rounds_of_any_size_end_where_single_tokens_do(
    tokens: list[int], sizes: list[int], stops: list[str], budget: int | None
) -> None:
    one_by_one = in_rounds(tokens, [], Ending(VOCAB, stops=stops, budget=budget))
    assert in_rounds(tokens, sizes, Ending(VOCAB, stops=stops, budget=budget)) == one_by_one
    answer, finish, text = one_by_one
    assert answer == tuple(tokens[: len(answer)])
    assert finish is not None or answer == tuple(tokens)
    assert not any(stop in text for stop in stops)
    assert END not in answer[:-1]
    assert budget is None or len([token for token in answer if token != END]) <= budget
