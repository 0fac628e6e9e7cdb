"""Lines of a list's entry: its name in a column, with the details beside it or below a long name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from app.ui.drawing.wrapping import Line, plain_lines, wrap

_GAP = 2
"""Cells between the columns, and those that the rest of a long name is indented by."""
_ENOUGH = 48
"""Cells that the details of a model fit in."""
DIM, ITALIC, BOLD = Style(dim=True), Style(italic=True), Style(bold=True)
GONE = Style(dim=True, strike=True)


@dataclass(frozen=True, slots=True)
class NamedLines:
    """Lines of one entry of a list; Rich draws them at any width."""

    name: str
    """One line, without control characters."""
    style: Style
    """Style of the name."""
    details: tuple[tuple[str, Style], ...]
    """Texts without control characters, each on lines of its own."""
    names: tuple[int, ...]
    """Cells of the names of all entries."""

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        for line in self.lines(options.max_width):
            yield from line
            yield Segment.line()

    def lines(self, width: int) -> list[Line]:
        """Return the lines, each at most that many cells wide."""
        # Longer names, on lines of their own, would leave too little beside them.
        most = max(width // 3, width - _ENOUGH)
        column = max((cells for cells in self.names if cells <= most), default=0)
        indent = column + _GAP
        known = self._known(max(1, width - indent))
        if known and cell_len(self.name) <= column:
            known[0] = [*self._name(width)[0], Segment(" " * (indent - cell_len(self.name))), *known[0]]
            return [known[0], *_indented(known[1:], indent)]
        return [*self._name(width), *_indented(known, indent)]

    def _name(self, width: int) -> list[Line]:
        # The name of a file has no words to break between.
        places = wrap(self.name, max(1, width - _GAP), words=" " in self.name)
        first, *rest = [[Segment(self.name[start:end], self.style)] for start, end in places]
        return [first, *_indented(rest, _GAP)]

    def _known(self, width: int) -> list[Line]:
        return [line for text, style in self.details if text for line in plain_lines(text, width, style)]


def _indented(lines: Sequence[Line], cells: int) -> Iterator[Line]:
    for line in lines:
        yield [Segment(" " * cells), *line]
