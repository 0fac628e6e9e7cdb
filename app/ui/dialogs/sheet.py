"""A sheet over the chat for tables, laid out for the width there is."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Label, Static

from app.ui.drawing.dialog import Dialog

_CLOSES = "Escape closes, arrows scroll"
_NARROWEST = 20
"""Columns that a text is laid out for, at least."""


class SheetScreen(Dialog[None]):
    """Shows a text until Escape closes it, or a letter is typed, which goes to the prompt."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter", "dismiss", "Close", id="sheet.close")]

    def __init__(self, title: str, draw: Callable[[int], str]) -> None:
        """Take a title, and a function from a width in columns to lines of at most that many."""
        super().__init__()
        self._title = title
        self._draw = draw

    def compose(self) -> ComposeResult:
        """Lay out the sheet."""
        with Vertical(classes="dialog", id="sheet"):
            yield Label(self._title, classes="title", markup=False)
            with VerticalScroll():
                yield Static(id="lines", markup=False)
            yield Label(_CLOSES, classes="keys")

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self.query_one(VerticalScroll).focus()

    def on_resize(self) -> None:
        """Lay out the text for the new width."""
        self.call_after_refresh(self._lay_out)

    def _lay_out(self) -> None:
        region = self.query_one(VerticalScroll).scrollable_content_region
        self.query_one("#lines", Static).update(Content(self._draw(max(_NARROWEST, region.width - 1))))
