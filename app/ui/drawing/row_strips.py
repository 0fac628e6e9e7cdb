"""Rows of a transcript, from gutter to scroll bar, built in one step for speed."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.strip import Strip

from app.ui.drawing.wrapping import Line


@dataclass(frozen=True, slots=True)
class Paper:
    """Values shared by all rows of one drawing."""

    width: int
    """Cells of the whole widget, the scroll bar's included."""
    margin: int
    """Empty cells at the left."""
    room: int
    """Cells of what is written on: gutter and text, right of the margin."""
    style: Style
    """Base style below the style of each part."""
    background: Color
    filters: Sequence[LineFilter]
    """They leave the colours that this terminal has."""


def row_strip(gutter: Line, body: Line, back: Style, paper: Paper) -> Strip:
    """Return a row as wide as the paper; `back` is behind its text and the blank rest, and not behind the gutter."""
    base = paper.style + back
    written = _cut([*_on(gutter, paper.style), *_on(body, base)], paper.room)
    rest = paper.room - Segment.get_line_length(written)
    right = paper.width - paper.margin - paper.room
    parts = [
        Segment(" " * paper.margin, paper.style),
        *written,
        Segment(" " * rest, base),
        Segment(" " * right, paper.style),
    ]
    return _filtered([part for part in parts if part.text], paper)


def blank_strip(paper: Paper) -> Strip:
    """Return a row with nothing on it, not even a gutter."""
    return _filtered([Segment(" " * paper.width, paper.style)], paper)


def _on(line: Line, under: Style) -> Line:
    return [Segment(text, under + style if style else under) for text, style, _ in line]


def _cut(line: Line, width: int) -> Line:
    return line if Segment.get_line_length(line) <= width else Segment.adjust_line_length(line, width)


def _filtered(line: Line, paper: Paper) -> Strip:
    for line_filter in paper.filters:
        line = line_filter.apply(line, paper.background)
    return Strip(line, paper.width)
