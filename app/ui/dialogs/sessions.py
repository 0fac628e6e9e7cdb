"""The dialog of saved conversations: the latest first, or those that contain all typed words."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from app.history.records import Conversation, Hit, Summary
from app.history.search import search
from app.history.store import Store
from app.shell.paths import conversations_file
from app.shell.safe_text import one_line
from app.ui.chat.failures import localspec_error
from app.ui.drawing.dialog import Dialog
from app.ui.prompt.one_line import OneLineInput
from models.system.counted import counted

_KEYS = "Enter continues the conversation, Escape closes"
_MOST = 200
"""Conversations that are listed; more can be searched for."""


class SessionScreen(Dialog[str | None]):
    """Returns the id of the conversation that was chosen; None: none was."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close", id="sessions.close"),
        Binding("down", "move(1)", "Next", id="sessions.down", priority=True, show=False),
        Binding("up", "move(-1)", "Previous", id="sessions.up", priority=True, show=False),
    ]

    class Found(Message):
        """A search is over."""

        def __init__(self, words: str, options: Sequence[tuple[str, Table]], problem: str) -> None:
            """Take the searched words, id and text of each line, and the error of the search, if any."""
            super().__init__()
            self.words = words
            self.options = options
            self.problem = problem

    def __init__(self, note: Callable[[str], object]) -> None:
        """Take a callback for notes, called on any thread, such as that a damaged file was moved aside."""
        super().__init__()
        self._note = note
        self._listed: str | None = None
        """The words that what is listed was found by."""
        self._entered = False
        """Whether Enter was pressed before the words that are typed were searched for."""

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Vertical(id="sessions", classes="dialog"):
            yield Label("Saved conversations", classes="title")
            yield OneLineInput(placeholder="Words to search for", id="words")
            yield OptionList(id="found", markup=False)
            yield Label(
                "Enter continues the conversation, Escape closes", classes="keys", id="sessions-note", markup=False
            )

    def on_mount(self) -> None:
        """List the latest."""
        self.look("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._entered = False
        self.look(event.value)

    @on(Input.Submitted)
    def _enter(self, event: Input.Submitted) -> None:
        # Until then the highlight is on what other words found.
        self._entered = event.value != self._listed
        if not self._entered:
            self._continue()

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)

    def action_move(self, lines: int) -> None:
        """Move the highlight while the cursor stays in the words."""
        found = self.query_one(OptionList)
        if lines > 0:
            found.action_cursor_down()
        else:
            found.action_cursor_up()

    @work(thread=True, exclusive=True)
    def look(self, words: str) -> None:
        """Search on a thread of its own: another program may hold the file for seconds."""
        store = Store(conversations_file(), self._note)
        try:
            found: Sequence[Summary | Hit] = search(store, words, _MOST) if words.strip() else store.latest(_MOST)
            options, problem = _lines(found), ""
        except Exception as error:  # one that left this thread would end the app
            options, problem = [], localspec_error(error).title
        finally:
            store.close()
        self.post_message(self.Found(words, options, problem))

    @on(Found)
    def _show(self, event: Found) -> None:
        if event.words != self.query_one(Input).value:
            # More was typed meanwhile; its own answer comes.
            return
        found = self.query_one(OptionList)
        found.clear_options()
        found.add_options(Option(text, id=name) for name, text in event.options)
        found.highlighted = 0 if event.options else None
        nothing = "No conversation matches." if event.words.strip() else "No conversations are saved."
        note = event.problem or ("" if event.options else nothing)
        self.query_one("#sessions-note", Label).update(f"{note} Escape closes" if note else _KEYS)
        self._listed = event.words
        if self._entered:
            self._continue()

    def _continue(self) -> None:
        found = self.query_one(OptionList)
        if found.highlighted is not None:
            self.dismiss(found.get_option_at_index(found.highlighted).id)


def _lines(found: Sequence[Summary | Hit]) -> list[tuple[str, Table]]:
    """Return a line for each conversation, with its best match where words were searched for."""
    lines: dict[str, Table] = {}
    for one in found:
        text = Text(one_line(one.conversation.title), "bold")
        if isinstance(one, Hit):
            text.append("\n")
            for piece, marked in one.parts:
                text.append(_spaced(piece), "bold underline" if marked else "not bold dim")
        else:
            text.append(f"  {counted(one.entries, 'message')}", "not bold dim")
        lines.setdefault(one.conversation.id, _beside(one.conversation, text))
    return list(lines.items())


def _spaced(piece: str) -> str:
    # A piece may begin or end with the space between two words.
    return " " * piece.startswith((" ", "\n")) + one_line(piece) + " " * piece.endswith((" ", "\n"))


def _beside(conversation: Conversation, text: Text) -> Table:
    """Return a text beside the moment at which its conversation changed last."""
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_row(Text(datetime.fromtimestamp(conversation.changed).strftime("%Y-%m-%d %H:%M"), "dim"), text)
    row.columns[0].no_wrap = True
    return row
