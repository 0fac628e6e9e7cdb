"""The dialog of themes: the highlighted one is shown at once."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from app.chat_input.themes import THEMES
from app.ui.drawing.dialog import Dialog

_KEYS = "Enter keeps it, Escape goes back"


class ThemeScreen(Dialog[str | None]):
    """Returns the name of the chosen theme; None: the theme is again the one of before."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "go_back", "Back", id="themes.back")]

    def __init__(self, before: str) -> None:
        """Take Textual's name of the present theme."""
        super().__init__()
        self._before = before

    def compose(self) -> ComposeResult:
        """Lay out the list at the side, so that the chat is seen."""
        with Vertical(id="themes", classes="dialog"):
            yield Label("Themes", classes="title")
            yield OptionList(*(Option(name, id=name) for name in THEMES), id="names", markup=False)
            yield Label(_KEYS, classes="keys", markup=False)

    def on_mount(self) -> None:
        """Highlight the present theme."""
        places = [place for place, name in enumerate(THEMES.values()) if name == self._before]
        self.query_one(OptionList).highlighted = places[0] if places else 0
        self.query_one(OptionList).focus()

    @on(OptionList.OptionHighlighted)
    def _show(self, event: OptionList.OptionHighlighted) -> None:
        self.app.theme = THEMES[event.option.id or ""]

    @on(OptionList.OptionSelected)
    def _keep(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)

    def action_go_back(self) -> None:
        """Show the theme of before again, and close the list."""
        self.app.theme = self._before
        self.dismiss(None)
