"""The title line of the editor, notes about a file, and times in words."""

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.widget import Widget

from app.ui.editor.file import TextFile
from app.ui.panel.bars import fit, shown

_SHORTEST_NAME = 20
"""Columns that a name has where there are as many."""


class TitleLine(Widget):
    """The line above the text: the file at the left, the model and the cursor at the right."""

    DEFAULT_CSS = """
    TitleLine {
        height: 1;
        padding: 0 1;
        background: $panel;
        color: $text;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        """Begin empty."""
        super().__init__(id=id)
        self._parts = ("", "", "", "")

    def show(self, name: str, notes: str, model: str, where: str) -> None:
        """Show a file's name, what is to be known of it, the model's name, and where the cursor is."""
        parts = (name, f"  {notes}" * bool(notes), model, f"  {where}")
        if parts != self._parts:
            self._parts = parts
            self.refresh()

    def render(self) -> Content:
        """Return the line; of a long path the end tells most."""
        (name, notes, model, where), width = map(shown, self._parts), self.content_size.width
        room = max(0, width - cell_len(notes) - cell_len(where))
        model = fit(model, max(0, room - min(cell_len(name), _SHORTEST_NAME) - 2))
        room -= cell_len(model) + 2 * bool(model)
        if cell_len(name) > room:
            name = "..." + set_cell_size(name[::-1], max(0, room - 3))[::-1]
        gap = max(0, width - sum(map(cell_len, (name, notes, model, where))))
        return Content.assemble((name, "bold"), notes, " " * gap, model, where)


def file_notes(file: TextFile, *, is_changed: bool) -> str:
    """Return the notes about a file: new, changed, read-only, line ends, byte order mark."""
    notes = [
        "new" * (file.known is None), "changed" * is_changed, "read-only" * file.is_protected,
        "CRLF" * (file.line_end == "\r\n"), "BOM" * file.bom,
    ]  # fmt: skip
    return "  ".join(filter(None, notes))


def seconds_words(seconds: float) -> str:
    """Return a time as it is said in a line of figures."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "<1 ms"
