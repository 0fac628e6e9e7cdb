"""Indentation: its unit in a text, Tab and Shift-Tab, and the indent of a new line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual.document._document import EditResult, Selection
from textual.document._edit import Edit
from textual.widgets import TextArea

from app.ui.editor.area import CodeArea


@dataclass
class _Replacement(Edit):
    """An edit after which something is selected, also where it is done again."""

    selected: Selection

    def do(self, text_area: TextArea, record_selection: bool = True) -> EditResult:
        result = super().do(text_area, record_selection)
        self._updated_selection = self.selected
        return result


class IndentedArea(CodeArea):
    """A text area for code that moves lines in and out as the text has it."""

    def __init__(self, text: str, filename: str, *, id: str | None = None) -> None:  # noqa: A002
        """Take the text, and the name that tells its language."""
        super().__init__(text, filename, id=id)
        self.indent_type, self.indent_width = _indentation(self.document.lines[:1000])

    def indent(self) -> None:
        """Put in white space up to the next stop, or move all lines in of which something is selected."""
        first, last = self.selection
        if first[0] == last[0]:
            blank = "\t" if self.indent_type == "tabs" else " " * self._find_columns_to_next_tab_stop()
            self._replace_via_keyboard(blank, *self.selection)
            return
        step = "\t" if self.indent_type == "tabs" else " " * self.indent_width
        # An empty line stays empty: white space alone would be saved unseen.
        self._change_lines(lambda line: step + line if line else line)

    def unindent(self) -> None:
        """Remove one indent from the cursor's line, or from each selected line."""
        self._change_lines(self._unindented)

    def begin_line(self) -> None:
        """Begin a new line with the indent of this one."""
        row, column = min(self.selection)
        line = self.document[row][:column]
        self._replace_via_keyboard("\n" + line[: len(line) - len(line.lstrip(" \t"))], *self.selection)

    def _unindented(self, line: str) -> str:
        blank = len(line) - len(line.lstrip(" "))
        return line[1 if line.startswith("\t") else min(blank, (blank - 1) % self.indent_width + 1) :]

    def _change_lines(self, change: Callable[[str], str]) -> None:
        """Change the beginning of each selected line; what was selected stays so."""
        (top, _), (bottom, end) = sorted(self.selection)
        # Of a line in front of which the selection ends nothing is selected.
        bottom -= top < bottom and not end
        before = self.document.lines[top : bottom + 1]
        after = [change(line) for line in before]
        grown = {top + number: len(line) - len(before[number]) for number, line in enumerate(after)}
        places = [(row, column and max(0, column + grown.get(row, 0))) for row, column in self.selection]
        if after != before:
            edges = (top, 0), (bottom, len(before[-1]))
            self.edit(_Replacement("\n".join(after), *edges, False, Selection(*places)))


def _indentation(lines: Sequence[str]) -> tuple[Any, int]:
    """Return "tabs" or "spaces", and how many, as lines have it."""
    begins = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    if sum(begin.startswith("\t") for begin in begins) > sum(begin.startswith("  ") for begin in begins):
        return "tabs", 4
    widths = [len(begin) for begin in begins if begin and not begin.strip(" ")]
    return "spaces", 2 if widths and min(widths) == 2 else 4
