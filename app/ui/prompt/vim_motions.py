"""Targets of vim's motions in lines of text; places are (row, column), both from 0."""

import re
from collections.abc import Callable, Sequence

Lines = Sequence[str]
Place = tuple[int, int]

_WORD = re.compile(r"\w+|[^\w\s]+")


def _right(lines: Lines, at: Place) -> Place:
    return at[0], min(at[1] + 1, len(lines[at[0]]))


def _left(_: Lines, at: Place) -> Place:
    return at[0], max(at[1] - 1, 0)


def _line_start(_: Lines, at: Place) -> Place:
    return at[0], 0


def _line_end(lines: Lines, at: Place) -> Place:
    return at[0], len(lines[at[0]])


def first_word(lines: Lines, at: Place) -> Place:
    """Return the place of the first character of a line that is no space."""
    line = lines[at[0]]
    return at[0], len(line) - len(line.lstrip())


def _next_word(lines: Lines, at: Place) -> Place:
    row, column = at
    if (found := next((start for start in _starts(lines[row]) if start > column), None)) is not None:
        return row, found
    for below in range(row + 1, len(lines)):
        if starts := _starts(lines[below]) or [0][: not lines[below]]:
            return below, starts[0]
    return len(lines) - 1, len(lines[-1])


def _word_end(lines: Lines, at: Place) -> Place:
    for row in range(at[0], len(lines)):
        ends = (found.end() - 1 for found in _WORD.finditer(lines[row]))
        if (end := next((end for end in ends if row > at[0] or end > at[1]), None)) is not None:
            return row, end
    return len(lines) - 1, max(len(lines[-1]) - 1, 0)


def _previous_word(lines: Lines, at: Place) -> Place:
    for row in range(at[0], -1, -1):
        starts = [start for start in _starts(lines[row]) if row < at[0] or start < at[1]]
        if starts or (row < at[0] and not lines[row]):
            return row, starts[-1] if starts else 0
    return 0, 0


def _starts(line: str) -> list[int]:
    return [found.start() for found in _WORD.finditer(line)]


MOTIONS: dict[str, Callable[[Lines, Place], Place]] = {
    "h": _left,
    "l": _right,
    "w": _next_word,
    "b": _previous_word,
    "e": _word_end,
    "0": _line_start,
    "^": first_word,
    "$": _line_end,
}
INCLUSIVE = frozenset("eft")
"""Motions whose last character is part of what an edit takes."""


def move(lines: Lines, at: Place, motion: str, count: int) -> Place:
    """Return where a motion leads when it is made `count` times."""
    for _ in range(count):
        if (to := MOTIONS[motion](lines, at)) == at:
            break
        at = to
    return at


def find(lines: Lines, at: Place, motion: str, character: str, count: int) -> Place | None:
    """Return the place of the `count`-th such character to the right in the line ("f"), or before it ("t"), or None."""
    row, column = at
    for _ in range(count):
        column = lines[row].find(character, column + 1)
        if column < 0:
            return None
    return row, column - (motion == "t")


def word_range_end(lines: Lines, at: Place, count: int, *, change: bool) -> Place:
    """Return where an edit of words ends: not past the line's end, and for a change not past the last word's."""
    row, column = at
    if change and lines[row][column : column + 1].strip():
        end = move(lines, (row, column - 1), "e", count)
        return end[0], end[1] + 1
    to = move(lines, at, "w", count)
    if to[0] > row and to <= first_word(lines, to):
        return to[0] - 1, len(lines[to[0] - 1])
    return to
