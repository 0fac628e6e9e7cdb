"""Lines of a picker's choice: the name in a column, with the details beside it or below a long name."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult

from app.shell.safe_text import one_line, shown
from app.ui.dialogs.choices import Choice
from app.ui.drawing.named_lines import BOLD, DIM, GONE, ITALIC, NamedLines
from app.ui.drawing.wrapping import Line


@dataclass(frozen=True, slots=True)
class ChoiceLines:
    """Lines of one choice of a list; Rich draws them at any width."""

    choice: Choice
    names: tuple[int, ...]
    """Cells of the names of all choices."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        yield from self._drawn().__rich_console__(console, options)

    def lines(self, width: int) -> list[Line]:
        """Return the lines, each at most that many cells wide."""
        return self._drawn().lines(width)

    def _drawn(self) -> NamedLines:
        one = self.choice
        details = ((shown(one.detail), DIM), (shown(one.reason), ITALIC))
        return NamedLines(shown_name(one), BOLD if one.usable else GONE, details, self.names)


def shown_name(choice: Choice) -> str:
    """Return a name as it is shown: of a file without its folder."""
    return one_line(Path(choice.name).name if choice.name.endswith(".gguf") else choice.name)


def choice_lines(choices: Sequence[Choice]) -> list[ChoiceLines]:
    """Return the lines of choices that stand in one list."""
    names = tuple(cell_len(shown_name(one)) for one in choices)
    return [ChoiceLines(one, names) for one in choices]
