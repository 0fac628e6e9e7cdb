"""Plain text wrapped into lines of a width in cells, between words, with no character lost."""

import re
from collections.abc import Iterator

from rich.cells import cell_len, split_graphemes
from rich.segment import Segment
from rich.style import Style

Line = list[Segment]
"""One line of a screen, without its end."""
_WORD = re.compile(r"[ \t]*[^ \t]+|[ \t]+")
_TAB = 4
"""Cells between tab stops."""


def expand(text: str) -> str:
    """Return a text with spaces for tabs."""
    return text.expandtabs(_TAB) if "\t" in text else text


def wrap(line: str, width: int, *, words: bool = True) -> list[tuple[int, int]]:
    """Return where each line of the given width begins and ends in a text without line ends or tabs.

    With `words` it breaks between words where it can; a word that is wider than a line is cut.
    """
    if cell_len(line) <= width:
        return [(0, len(line))]
    return list(_wrapped(line, width)) if words else list(_folded(line, 0, len(line), width))


def plain_lines(text: str, width: int, style: Style, *, words: bool = True) -> list[Line]:
    """Return a text in one style, wrapped."""
    made: list[Line] = []
    for raw in text.split("\n"):
        line = expand(raw)
        made += [[Segment(line[start:end], style)] for start, end in wrap(line, width, words=words)]
    return made


def _wrapped(line: str, width: int) -> Iterator[tuple[int, int]]:
    start = end = used = 0
    for match in _WORD.finditer(line):
        word = match.group()
        if (cells := cell_len(word)) + used <= width:
            end, used = match.end(), used + cells
            continue
        if not word.strip(" "):
            continue
        if end > start:
            yield start, end
            # The spaces between two lines are where the break is.
            start = match.end() - len(word.lstrip(" "))
        *cut, (start, end) = _folded(line, start, match.end(), width)
        yield from cut
        used = cell_len(line[start:end])
    yield start, end


def _folded(line: str, start: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    begin, used = start, 0
    for left, _, cells in split_graphemes(line[start:end])[0]:
        if used + cells > width and start + left > begin:
            yield begin, start + left
            begin, used = start + left, 0
        used += cells
    yield begin, end
