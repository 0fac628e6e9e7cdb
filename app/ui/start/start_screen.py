"""The start screen: a list of conversations, models and offers, narrowed by what is typed."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.ui.drawing.key_footer import KeyFooter
from app.ui.drawing.seen_through import SeenThrough
from app.ui.prompt.one_line import OneLineInput
from app.ui.start.inventory import search
from app.ui.start.rows import Row, Section, row_lines

_WHAT = "Language models on this machine. Drafts make them faster, and the text stays the same."
_SEARCHING = "Reading model files …"
_TALL = 16
"""Least lines of the screen at which the explanation and the keys are shown."""


class StartScreen(SeenThrough[None]):
    """Offers what can be opened or fetched."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="start.open", priority=True),
        Binding("down", "move('cursor_down')", "Next", id="start.down", priority=True, show=False),
        Binding("up", "move('cursor_up')", "Previous", id="start.up", priority=True, show=False),
        Binding("pagedown", "move('page_down')", "Page down", id="start.page_down", priority=True, show=False),
        Binding("pageup", "move('page_up')", "Page up", id="start.page_up", priority=True, show=False),
        Binding("escape", "clear", "Clear", id="start.clear", show=False),
        Binding("f1", "help", "Help", id="start.help"),
        Binding("ctrl+c", "leave_or_clear", "Leave", id="start.interrupt", priority=True, show=False),
        Binding("ctrl+q", "app.leave", "Leave", id="start.leave", priority=True),
    ]
    DEFAULT_CSS = """
    StartScreen {
        align-horizontal: center;
        & #start { width: 100%; max-width: 104; height: 1fr; padding: 0 2; }
        & #name { color: $primary; text-style: bold; margin: 1 0 0 0; }
        & #what { color: $text-muted; margin: 0 0 1 0; }
        & #find { border: none; height: 1; padding: 0 1; background: $surface; }
        & #offered { height: 1fr; border: none; background: $background; padding: 0; margin: 1 0 0 0;
            scrollbar-size-vertical: 1; }
        & #note { color: $text-muted; height: 1; }
    }
    """

    @dataclass
    class Found(Message):
        """What was found so far."""

        sections: Sequence[Section]
        is_all: bool

    @dataclass
    class Chosen(Message):
        """The user chose a row."""

        row: Row

    def __init__(self) -> None:
        """Start with an empty list."""
        super().__init__()
        self._sections: Sequence[Section] = ()
        self._rows: dict[str, Row] = {}
        self._stopped = threading.Event()

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Vertical(id="start"):
            yield Static("localspec", id="name", markup=False)
            yield Static(_WHAT, id="what", markup=False)
            yield OneLineInput(placeholder="Type to find a model or a conversation", id="find")
            yield OptionList(id="offered", markup=False)
            yield Static(_SEARCHING, id="note", markup=False)
        yield KeyFooter(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Search once the first picture is there: the search holds the interpreter for tenths of a second."""
        self.query_one(Input).focus()
        self.call_after_refresh(self.look)

    def on_unmount(self) -> None:
        """Stop the search."""
        self._stopped.set()

    def on_resize(self) -> None:
        """Leave the room of a low screen to the list."""
        tall = self.size.height >= _TALL
        for name in ("#what", "#note"):
            self.query_one(name).display = tall
        self.query_one(KeyFooter).display = self.size.height >= _TALL // 2

    def look(self) -> None:
        """Search anew, on a thread that does not outlive the program."""
        self._stopped.set()
        self._stopped = stopped = threading.Event()

        def show(sections: Sequence[Section], is_all: bool) -> None:
            if not stopped.is_set():
                self.post_message(self.Found(sections, is_all))

        threading.Thread(target=search, args=(show, stopped), daemon=True, name="start-search").start()

    @on(Found)
    def _found(self, event: Found) -> None:
        self._sections = event.sections
        self._narrow()
        rows = any(section.rows for section in self._sections)
        note = "" if rows else "No models are on this machine. Choose one to get."
        self.query_one("#note", Static).update(note if event.is_all else _SEARCHING)

    @on(Input.Changed)
    def _typed(self) -> None:
        self._narrow(first=True)

    @on(Input.Submitted)
    def _entered(self) -> None:
        self.action_open()

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self.post_message(self.Chosen(self._rows[event.option.id or ""]))

    def action_open(self) -> None:
        """Open the highlighted row."""
        listed = self.query_one(OptionList)
        if listed.highlighted is not None:
            chosen = listed.get_option_at_index(listed.highlighted).id
            self.post_message(self.Chosen(self._rows[chosen or ""]))

    def action_move(self, motion: str) -> None:
        """Move the highlight while the cursor stays in the search."""
        getattr(self.query_one(OptionList), f"action_{motion}")()

    def action_clear(self) -> None:
        """Empty the search."""
        self.query_one(Input).value = ""

    def action_leave_or_clear(self) -> None:
        """Empty the search, else leave."""
        if self.query_one(Input).value:
            self.action_clear()
        else:
            self.app.exit()

    def action_help(self) -> None:
        """Show the manual's first page."""
        from app.manual.pages import page_of
        from app.ui.chat.help import show_page

        show_page(self.app, page_of("getting-started"))

    def _narrow(self, *, first: bool = False) -> None:
        """List the rows that match; the highlighted one stays so, unless `first` is wanted."""
        words = self.query_one(Input).value.lower().split()
        sections = [section.matching(words) for section in self._sections]
        self._rows = {row.key: row for section in sections for row in section.rows}
        listed = self.query_one(OptionList)
        before = None if first or listed.highlighted is None else listed.get_option_at_index(listed.highlighted).id
        lines, options = row_lines(sections), list[Option]()
        for section in filter(lambda one: one.rows, sections):
            options.append(Option(_heading(section.title, above=bool(options)), disabled=True))
            options += [Option(lines[row.key], id=row.key) for row in section.rows]
        listed.clear_options()
        listed.add_options(options)
        places = [n for n, option in enumerate(options) if not option.disabled]
        same = next((n for n in places if options[n].id == before), None)
        listed.highlighted = same if same is not None else next(iter(places), None)


def _heading(title: str, *, above: bool) -> Content:
    return Content.assemble("\n" * above, (title, "bold $accent"))
