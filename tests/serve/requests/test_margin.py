"""Where a completion ends for going back too far to the left."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.serve.requests.indent import Margin

TEXT = "one\n  two\n\n    three\n \t\n\tfour\n five\nsix\n"


def passed(text: str, least: int, cuts: list[int]) -> tuple[str, bool]:
    """Feed a text in pieces; return what passes, and whether a line ended it."""
    margin, edges = Margin(least), sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    out = "".join(margin.feed(text[start:end]) for start, end in pairwise(edges))
    return out + margin.finish(), margin.is_over


@pytest.mark.parametrize(
    ("least", "wanted", "over"),
    [
        (0, TEXT, False),
        (1, "one\n  two\n\n    three\n \t\n\tfour\n five", True),
        (2, "one\n  two\n\n    three", True),
        (3, "one", True),
    ],
)
@pytest.mark.parametrize("cuts", [[], list(range(len(TEXT)))])
def test_a_line_that_is_not_indented_enough_ends_the_text(
    least: int, wanted: str, cuts: list[int], *, over: bool
) -> None:
    assert passed(TEXT, least, cuts) == (wanted, over)


@pytest.mark.parametrize("sign", ["\f", "\v", "\u00a0", "\u3000"])
def test_a_blank_that_indents_nothing_is_a_sign_like_any_other(sign: str) -> None:
    text = f"one\n  two\n  {sign}\n{sign}\n  three"
    for cuts in ([], list(range(len(text)))):
        assert passed(text, 2, cuts) == (f"one\n  two\n  {sign}", True)
    margin = Margin(2)
    assert margin.feed(f"one\n  {sign}  two\n") == f"one\n  {sign}  two", "it is not held back"


def test_empty_lines_at_the_end_pass_when_no_line_follows() -> None:
    assert passed("one\n  two\n\n  ", 2, [5]) == ("one\n  two\n\n  ", False)


@given(st.text("a \n\t", max_size=40), st.integers(0, 4), st.lists(st.integers(0, 40)))
def test_pieces_do_not_matter(text: str, least: int, cuts: list[int]) -> None:
    assert passed(text, least, cuts) == passed(text, least, [])
