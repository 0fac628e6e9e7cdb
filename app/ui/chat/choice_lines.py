"""Lines of a picker's choice: the name in a column, with the details beside it or below a long name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from app.shell.safe_text import one_line, shown
from app.ui.chat.choices import Choice
from app.ui.drawing.wrapping import Line, plain_lines, wrap

_GAP = 2
"""Cells between the columns, and those that the rest of a long name is indented by."""
_ENOUGH = 48
"""Cells that what is known of a model fits in."""
_DIM, _ITALIC, _BOLD = Style(dim=True), Style(italic=True), Style(bold=True)
_GONE = Style(dim=True, strike=True)


@dataclass(frozen=True, slots=True)
class ChoiceLines:
    """Lines of one choice of a list; Rich draws them at any width."""

    choice: Choice
    names: tuple[int, ...]
    """Cells of the names of all choices."""

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
        name, known = shown_name(self.choice), self._known(max(1, width - indent))
        if known and cell_len(name) <= column:
            known[0] = [*self._name(name, width)[0], Segment(" " * (indent - cell_len(name))), *known[0]]
            return [known[0], *_indented(known[1:], indent)]
        return [*self._name(name, width), *_indented(known, indent)]

    def _name(self, name: str, width: int) -> list[Line]:
        style = _BOLD if self.choice.usable else _GONE
        places = wrap(name, max(1, width - _GAP), words=False)
        first, *rest = [[Segment(name[start:end], style)] for start, end in places]
        return [first, *_indented(rest, _GAP)]

    def _known(self, width: int) -> list[Line]:
        parts = [(self.choice.detail, _DIM), (self.choice.reason, _ITALIC)]
        return [line for text, style in parts if text for line in plain_lines(shown(text), width, style)]


def shown_name(choice: Choice) -> str:
    """Return a name as it is shown: of a file without its folder."""
    return one_line(Path(choice.name).name if choice.name.endswith(".gguf") else choice.name)


def choice_lines(choices: Sequence[Choice]) -> list[ChoiceLines]:
    """Return the lines of choices that stand in one list."""
    names = tuple(cell_len(shown_name(one)) for one in choices)
    return [ChoiceLines(one, names) for one in choices]


def _indented(lines: Sequence[Line], cells: int) -> Iterator[Line]:
    for line in lines:
        yield [Segment(" " * cells), *line]
