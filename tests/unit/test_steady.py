"""What an editor asks line by line: the prompt stays, and says what the editor said."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.serve.steady import Steady
from models.fim import Chunk, Hole

FILE = [f"line {number} = {number % 7}\n" for number in range(400)]
WINDOW, BELOW = 100, 20
MOST = 2000
OTHERS = (Chunk("b.py", "def other(): ..."),)


def hole_at(row: int, lines: list[str], begun: str = "", chunks: tuple[Chunk, ...] = ()) -> Hole:
    """Return what an editor asks in a row: a window of the lines above, and of those below."""
    above = "".join(lines[max(0, row - WINDOW) : row])
    return Hole(above, "\n" + "".join(lines[row + 1 : row + 1 + BELOW]), chunks=chunks, begun=begun)


def said(hole: Hole) -> str:
    return hole.prefix + hole.begun


def write(steady: Steady, row: int, lines: int) -> list[tuple[Hole, Hole]]:
    """Write so many lines from a row on; return what was asked after each, and how it was put."""
    text = [*FILE[:row], "", *FILE[row:]]
    pairs = []
    for number in range(lines):
        asked = hole_at(row + number, text, begun=f"new {number}")
        pairs.append((asked, steady.hole(asked, MOST)))
        text[row + number : row + number + 1] = [f"new {number} = written\n", ""]
    return pairs


def test_lines_that_are_written_begin_the_middle_and_the_prompt_stays() -> None:
    pairs = write(Steady(), 50, 20)
    for asked, put in pairs:
        assert said(put) == said(asked)
        assert (put.prefix, put.suffix) == ("".join(FILE[:50]), asked.suffix)


def test_lines_that_are_written_where_the_window_slides_let_it_begin_anew_once_in_a_quarter() -> None:
    pairs = write(Steady(), 300, 60)
    prefixes = [put.prefix for _, put in pairs]
    for asked, put in pairs:
        assert said(asked).endswith(said(put))
        assert said(put).count("\n") >= WINDOW * 3 // 4
    # The first is as it was asked; then a window of 100 lines has room for 25.
    assert sum(one != next_one for one, next_one in pairwise(prefixes)) <= 1 + 60 // 25


@pytest.mark.parametrize("step", [1, -1, 3, -3])
def test_a_cursor_that_moves_through_a_long_file_lets_the_prefix_begin_at_one_line_for_long(step: int) -> None:
    steady = Steady()
    put = [steady.hole(hole_at(row, FILE), MOST) for row in range(250, 250 + 40 * step, step)]
    tops = [said(hole).split("\n", 1)[0] for hole in put]
    lines_moved = 40 * abs(step)
    assert sum(one != next_one for one, next_one in pairwise(tops)) <= 2 + lines_moved // 25
    for row, hole in zip(range(250, 250 + 40 * step, step), put, strict=True):
        asked = hole_at(row, FILE)
        assert said(asked).endswith(said(hole))
        assert said(hole).count("\n") >= WINDOW * 3 // 4
        assert hole.suffix == asked.suffix


def test_a_file_that_fits_its_window_is_never_cut() -> None:
    steady = Steady()
    for row in [*range(1, WINDOW), *range(WINDOW, 1, -1)]:
        assert said(steady.hole(hole_at(row, FILE), MOST)) == "".join(FILE[:row])


def test_back_at_the_top_of_a_long_file_it_is_whole_again() -> None:
    steady = Steady()
    for row in range(150, 20, -1):
        put = steady.hole(hole_at(row, FILE), MOST)
    assert said(put) == "".join(FILE[:21])


@pytest.mark.parametrize("change", [{"chunks": OTHERS}, {"suffix": "\nelse\n"}])
def test_with_something_else_around_it_is_put_as_it_is_asked(change: dict[str, object]) -> None:
    steady = Steady()
    steady.hole(hole_at(50, FILE), MOST)
    asked = replace(hole_at(60, FILE), **change)
    assert steady.hole(asked, MOST) == asked


def test_what_is_too_long_to_begin_the_middle_is_prefix() -> None:
    steady = Steady()
    first = Hole("def one():\n", "\n")
    steady.hole(first, MOST)
    for length, put in ((MOST, first), (MOST + 1, None)):
        asked = Hole(first.prefix + "x" * length, "\n")
        assert steady.hole(asked, MOST) == (replace(first, begun="x" * length) if put else asked)


def test_several_files_by_turns_stay_each_where_it_was() -> None:
    steady = Steady()
    files = [[f"{name} {line}" for line in FILE] for name in "abcd"]
    for turn in range(3):
        for lines in files:
            begun = f"{turn}"
            asked = Hole("".join(lines[:50]) + "new\n" * turn, "\n", begun=begun)
            assert steady.hole(asked, MOST) == Hole("".join(lines[:50]), "\n", begun="new\n" * turn + begun)


@pytest.mark.parametrize("text", ["", "\n", "\n" * 1000, "x" * 300_000, "a\n" * 140_000, "no end of line"])
def test_odd_texts_are_put_as_they_are_asked(text: str) -> None:
    steady = Steady()
    for suffix in "ab":
        assert said(steady.hole(Hole(text, suffix), MOST)) == text


LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "long line of code\n"]), max_size=12).map("".join)
HOLES = st.builds(Hole, LINES, st.just("\n"), begun=st.text(max_size=3))


@given(asked=st.lists(HOLES))
def test_it_never_says_what_was_not_asked(asked: list[Hole]) -> None:
    steady = Steady()
    for hole in asked:
        put = steady.hole(hole, 20)
        assert said(hole).endswith(said(put))
        assert 4 * said(put).count("\n") >= 3 * said(hole).count("\n")
        assert (put.suffix, put.chunks) == (hole.suffix, hole.chunks)
        assert len(put.begun.encode()) <= max(20, len(hole.begun.encode()))
