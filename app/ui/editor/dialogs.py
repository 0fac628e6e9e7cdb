"""Dialogs of the editor: questions with a few answers, and the page of keys."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Label, OptionList, Static
from textual.widgets.option_list import Option

from app.chat_input.keys import EDIT_KEYS
from app.ui.chat.key_pages import key_rows, page_table
from app.ui.drawing.dialog import Dialog

_TEXT_KEYS = (
    ("ctrl+z, ctrl+shift+z", "Undo, redo; ctrl+y redoes too"),
    ("ctrl+left, ctrl+right", "Go word by word; with shift, select"),
    ("home, end", "Go to the start or end of the line; with ctrl, of the text; with shift, select"),
    ("ctrl+x, ctrl+v", "Cut the selection, or the line; paste what was cut or copied here"),
    ("ctrl+w, ctrl+u, ctrl+k", "Delete the word before the cursor, to the start of the line, to its end"),
)


class QuestionScreen(Dialog[str | None]):
    """Asks for one of a few answers, and returns its name; None: Escape was pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Stay", id="question.close")]

    def __init__(self, question: str, answers: Mapping[str, str]) -> None:
        """Take a question, and the label of each answer by its name."""
        super().__init__()
        self._question = question
        self._answers = answers

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Vertical(classes="dialog", id="question"):
            # A label would be as wide as its text, and cut at the edge of the dialog.
            yield Static(self._question, classes="title", markup=False)
            yield OptionList(*(Option(words, id=name) for name, words in self._answers.items()), markup=False)

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)


class EditHelpScreen(Dialog[None]):
    """Shows the keys of the editor until a key closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,f1", "dismiss", "Close", id="help.close")]

    def __init__(self, keys: Mapping[str, Sequence[str]], limits: Sequence[str] = ()) -> None:
        """Take the keys as they are now, by the names of `app.chat_input.keys`, as they may be remapped, and what is
        not done.
        """
        super().__init__()
        self._bound = keys
        self._limits = limits

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with VerticalScroll(classes="dialog", id="help"):
            yield Label("Keys", classes="title")
            yield Static(page_table(key_rows(EDIT_KEYS, self._bound)))
            yield Label("In the text", classes="title")
            yield Static(page_table(_TEXT_KEYS))
            if self._limits:
                yield Label("Limits in a text of this size", classes="title")
                yield Static(Text("\n".join(self._limits)))

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self.query_one(VerticalScroll).focus()
