"""The help screens: all keys and commands, generated from their declarations, and pages of the manual."""

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.table import Table
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Label, Static

from app.chat_input.keys import KEYS
from app.manual.pages import TOPICS, Page, page_of
from app.manual.rendering import manual_markdown
from app.ui.chat.key_pages import bound_keys, key_rows, page_table
from app.ui.drawing.dialog import Dialog
from app.ui.drawing.open_once import open_once

_CLOSES = "Escape closes, arrows scroll"
_TYPING = (
    ("enter", "Send"),
    ("ctrl+j, shift+enter, alt+enter", "Start a new line"),
    ("up, down", "Earlier and later messages, from the first and last line"),
    ("ctrl+z, ctrl+shift+z", "Undo, redo"),
    ("ctrl+g", "Open the prompt in your editor"),
    ("@name", "Attach a file; @name:10-40 some of its lines"),
)
_MESSAGES = (
    ("up, down", "Choose a message"),
    ("n, p", "Next or previous code block"),
    ("y", "Copy the message or the code block"),
    ("e", "Edit the message and send it again, on a new branch"),
    ("b", "Switch to another branch of the message"),
    ("o", "Open a folded message, or fold it again"),
    ("r", "Step through the answer, round by round"),
    ("t", "Show or hide the model's thinking before its answers"),
)


def show_help(app: App[Any], commands: Sequence[tuple[str, str]]) -> None:
    """Open the help screen. `commands` gives for each command how it is typed and what it does."""
    open_once(app, HelpScreen(commands))


class HelpScreen(Dialog[None]):
    """A page of keys and commands that a key closes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f1", "dismiss", "Close", id="help.close"),
    ]

    def __init__(self, commands: Sequence[tuple[str, str]]) -> None:
        """Take for each command how it is typed and what it does."""
        super().__init__()
        self._commands = commands

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Vertical(classes="dialog", id="help"):
            with VerticalScroll():
                yield Label("Keys", classes="title")
                yield Static(self._keys())
                yield Label("In the prompt", classes="title")
                yield Static(page_table(_TYPING))
                yield Label("In the messages", classes="title")
                yield Static(page_table(_MESSAGES))
                yield Label("Commands", classes="title")
                yield Static(page_table(self._commands))
                yield Label("The manual", classes="title")
                yield Static(page_table((f"/help {page.topic}", page.summary) for page in map(page_of, TOPICS)))
            yield Label(_CLOSES, classes="keys")

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self.query_one(VerticalScroll).focus()

    def _keys(self) -> Table:
        """Return the keys of the chat as they are now: they may have been remapped."""
        chat = next(screen for screen in reversed(self.app.screen_stack) if screen is not self)
        return page_table(key_rows(KEYS, bound_keys(chat, KEYS)))


def show_page(app: App[Any], page: Page) -> None:
    """Open a page of the manual."""
    open_once(app, ManualScreen(page))


class ManualScreen(Dialog[None]):
    """Shows a page of the manual until a key closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f1", "dismiss", "Close", id="manual.close"),
    ]

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page = page

    def compose(self) -> ComposeResult:
        """Lay out the page."""
        with Vertical(classes="dialog", id="manual"):
            with VerticalScroll():
                yield Static(manual_markdown(self.page.plain, "/help"))
            yield Label(_CLOSES, classes="keys")

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self.query_one(VerticalScroll).focus()
