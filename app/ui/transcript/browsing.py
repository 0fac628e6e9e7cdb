"""A transcript with keys: one message or code block is selected, with a bar at its left."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive

from app.shell.safe_text import shown
from app.ui.drawing.marks import Marks
from app.ui.transcript.bodies import BlockBody, PlainBody
from app.ui.transcript.entries import Entry, LongMessage, Sign
from app.ui.transcript.pieces import Piece
from app.ui.transcript.transcript_view import TranscriptView

_LEFT = 1
"""Number of a mouse button."""


@dataclass(frozen=True, slots=True)
class _Code:
    """A code block that is selected."""

    piece: Piece
    number: int
    """Index among the piece's code blocks, from 0."""
    row: int
    """Its first row in the piece, at the width that is shown."""


class Browsing(TranscriptView, can_focus=True):
    """Entries, and the keys that go through them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "select(-1)", "Previous message", id="transcript.previous", show=False),
        Binding("down,j", "select(1)", "Next message", id="transcript.next", show=False),
        Binding("n", "code(1)", "Next code block", id="transcript.next_code"),
        Binding("p", "code(-1)", "Previous code block", id="transcript.previous_code"),
        Binding("y", "copy", "Copy", id="transcript.copy"),
        Binding("e", "edit", "Edit and resend", id="transcript.edit"),
        Binding("r", "replay", "Replay", id="transcript.replay"),
        Binding("t", "thoughts", "Thoughts", id="transcript.thoughts"),
        Binding("b", "branch", "Branch", id="transcript.branch"),
        Binding("o", "open", "Open or fold", id="transcript.open"),
        Binding("pageup", "page(-1)", "Page up", id="transcript.page_up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", id="transcript.page_down", show=False),
        Binding("home,g", "home", "First line", id="transcript.home", show=False),
        Binding("end,G", "end", "Last line", id="transcript.end", show=False),
    ]
    marks: reactive[Marks] = reactive(Marks.OFF, init=False, repaint=False)
    """Marks of the tokens of answers, which then show their raw text."""
    thoughts: reactive[bool] = reactive(default=False, init=False, repaint=False)
    """Whether what was thought before an answer is shown when the answer is there."""
    greeting: reactive[str] = reactive("", init=False, repaint=False)
    """Text shown above the notes while there is no message."""
    selected: reactive[int | None] = reactive(None, init=False, repaint=False)
    """Key of the message that the keys are about; None: none is selected."""

    @dataclass
    class Copied(Message, namespace="transcript"):
        """Request to copy a text."""

        text: str
        what: str
        """"message" or "code block"."""

    @dataclass
    class EditWanted(Message, namespace="transcript"):
        """Request to edit a message and send it again."""

        key: int

    @dataclass
    class ReplayWanted(Message, namespace="transcript"):
        """Request to replay an answer."""

        key: int

    @dataclass
    class BranchWanted(Message, namespace="transcript"):
        """Request to switch to another branch of a message."""

        key: int

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - as every widget names it
        """Take an id."""
        super().__init__(id=id)
        self._all: list[Entry] = []
        self._entries: dict[int, Entry] = {}
        self._code: _Code | None = None
        self._greeting: list[Piece] = []

    def pieces(self) -> Sequence[Piece]:
        """Return the pieces of all entries, below the greeting as long as no message is among them."""
        pieces = [piece for entry in self._all for piece in self._pieces_of(entry)]
        return pieces if self._entries else [*self._greeting, *pieces]

    def _pieces_of(self, entry: Entry) -> list[Piece]:
        return entry.pieces(marks=self.marks, thoughts=self.thoughts)

    def reflow(self) -> None:
        """Draw now; what is selected stays selected, wherever its rows are at another width."""
        super().reflow()
        if self._code is not None and self.text_width:
            rows = self._code_rows(self._code.piece)
            has_rows = self._code.number < len(rows)
            self._code = replace(self._code, row=rows[self._code.number]) if has_rows else None

    def bar_at(self, piece: Piece, row: int) -> str:
        """Return a bar beside what is selected."""
        outside = piece.is_first and row < piece.above
        if outside or piece.key is None or piece.key != self.selected:
            return " "
        if self._code is not None:
            return "█" if self._code.piece is piece and row >= self._code.row else " "
        return "▌"

    def watch_marks(self) -> None:
        """Draw answers in their other form, with the same message at the top."""
        self._code = None
        seen = self._seen_key()
        self.reflow()
        if not self.following and seen is not None:
            self._show_entry(seen)

    watch_thoughts = watch_marks

    def watch_greeting(self, greeting: str) -> None:
        """Draw it."""
        self._greeting = [Piece(None, Sign.NONE, PlainBody(shown(greeting), "placeholder"), above=1)]
        self.touch()

    def watch_selected(self) -> None:
        """Draw the bar."""
        self.refresh()

    def on_click(self, event: Click) -> None:
        """Select the message that was clicked, or in it the code block; a drag selects text instead."""
        place = self.column.at(self.scroll_offset.y + event.y)
        if event.button != _LEFT or event.chain > 1 or self.text_selection is not None or place is None:
            return
        piece, row = self.column.pieces[place[0]], place[1]
        is_outside = piece.is_first and row < piece.above
        self._code = None if is_outside else self._code_of(piece)
        self.selected = None if is_outside else piece.key
        self.refresh()

    def action_select(self, step: int) -> None:
        """Select the next message, or the one before; the first time the last one that is seen."""
        keys = list(self._entries)
        if not keys:
            return
        if self.selected is None:
            seen = self._seen_key()
            index = keys.index(seen) if seen in self._entries and not self.following else len(keys) - 1
        else:
            index = min(max(keys.index(self.selected) + step, 0), len(keys) - 1)
        self._code = None
        self.selected = keys[index]
        self._show_entry(keys[index])
        self.refresh()

    def action_code(self, step: int) -> None:
        """Select the next code block, or the one before, wherever it is."""
        if (found := next(self._codes(step), None)) is not None:
            self._code, self.selected = found, found.piece.key
            self.show_row(found.piece, found.row, 1)
            self.refresh()

    def action_copy(self) -> None:
        """Hand out the selected message, or the code block."""
        if self.selected is None:
            return
        entry = self._entries[self.selected]
        if self._code is None:
            self.post_message(self.Copied(entry.body, "message"))
        elif (index := self._code_index(self._code)) < len(codes := entry.code_blocks()):
            self.post_message(self.Copied(codes[index], "code block"))

    def action_thoughts(self) -> None:
        """Show what was thought before answers, or hide it."""
        self.thoughts = not self.thoughts

    def action_edit(self) -> None:
        """Ask for the selected message to be changed."""
        if self.selected is not None:
            self.post_message(self.EditWanted(self.selected))

    def action_replay(self) -> None:
        """Ask for the selected answer to be stepped through."""
        if self.selected is not None:
            self.post_message(self.ReplayWanted(self.selected))

    def action_branch(self) -> None:
        """Ask for another conversation that goes on from the selected message."""
        if self.selected is not None:
            self.post_message(self.BranchWanted(self.selected))

    def action_open(self) -> None:
        """Open the selected message if it is folded, or fold it again."""
        entry = self._entries.get(self.selected) if self.selected is not None else None
        if isinstance(entry, LongMessage):
            entry.turn()
            self._code = None
            self.reflow()
            self._show_entry(entry.key or 0)

    def action_page(self, pages: int) -> None:
        """Scroll by a screen, but for one line."""
        rows = max(1, self.scrollable_content_region.height - 1)
        self.scroll_relative(y=pages * rows, animate=False)

    def action_home(self) -> None:
        """Go to the first line."""
        self.scroll_to(y=0, animate=False)

    def action_end(self) -> None:
        """Go to the last line, and follow it."""
        self.follow()

    def forget_selection(self) -> None:
        """Select nothing, because what was selected may be gone."""
        self._code = None
        self.selected = None

    def _seen_key(self) -> int | None:
        """Return the message at the top of the screen, or the first one below that."""
        column = self.column
        place = column.at(self.scroll_offset.y)
        below = column.pieces[place[0] :] if place else []
        return next((piece.key for piece in below if piece.key is not None), None)

    def _show_entry(self, key: int) -> None:
        """Scroll no further than needed for a message to be seen, or as much of its beginning as fits."""
        column, height, top = self.column, self.scrollable_content_region.height, self.scroll_offset.y
        own = [n for n, piece in enumerate(column.pieces) if piece.key == key]
        if not own:
            return
        first, end = column.top(own[0]), column.top(own[-1] + 1)
        if first < top or end - first > height:
            self.show_row(column.pieces[own[0]], 0, 0)
        elif end > top + height:
            self.show_row(column.pieces[own[0]], 0, height - (end - first))

    def _codes(self, step: int) -> Iterator[_Code]:
        """Yield code blocks from where the reader is, forwards or backwards."""
        column = self.column
        here = self._code_row() if self._code else self.scroll_offset.y - (0 if step > 0 else 1)
        order = range(len(column.pieces)) if step > 0 else range(len(column.pieces) - 1, -1, -1)
        for index in order:
            piece, top = column.pieces[index], column.top(index)
            passed = column.top(index + 1) <= here if step > 0 else top > here
            blocks = [] if passed else [*enumerate(self._code_rows(piece))]
            for number, row in blocks if step > 0 else reversed(blocks):
                if (top + row - here) * step > 0:
                    yield _Code(piece, number, row)

    def _code_of(self, piece: Piece) -> _Code | None:
        """Return the code block that a piece is; None: it is none, though a list or a quote may have one in it."""
        is_code = isinstance(piece.body, BlockBody) and piece.body.block.code is not None
        return _Code(piece, 0, piece.above) if is_code else None

    def _code_row(self) -> int:
        assert self._code is not None
        pieces = self.column.pieces
        index = next((n for n, piece in enumerate(pieces) if piece is self._code.piece), None)
        return self.scroll_offset.y if index is None else self.column.top(index) + self._code.row

    def _code_index(self, code: _Code) -> int:
        """Return which of its message's code blocks it is."""
        before = 0
        for piece in self._pieces_of(self._entries[code.piece.key or 0]):
            if piece is code.piece:
                return before + code.number
            before += len(self._code_rows(piece))
        return before

    def _code_rows(self, piece: Piece) -> list[int]:
        return [*piece.code_rows(self.text_width, self.look)]
