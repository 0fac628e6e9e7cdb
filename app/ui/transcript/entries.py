"""Entries of a transcript, one per message: the exact text and the pieces that draw it."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import Literal

from app.engine.decoding.origins import Origin
from app.shell.safe_text import shown
from app.ui.drawing.marks import Marks, confidence_of
from app.ui.transcript.blocks import Block, Growing, blocks_of, code_blocks_of
from app.ui.transcript.bodies import BlockBody, PlainBody, TokenBody
from app.ui.transcript.chunks import chunks
from app.ui.transcript.pieces import Piece
from app.ui.transcript.thought_pieces import ThoughtPieces
from models.text.thoughts import Parts, Thoughts

NoteKind = Literal["note", "error", "output"]
_LONG, _SHOWN = 24, 8
"""Line ends from which on a message of the user is folded, and the lines that it then shows."""


class Sign(StrEnum):
    """Sign beside an entry that shows its role without colour."""

    USER = "┃"
    NOTE = "·"
    ERROR = "!"
    NONE = " "


class Entry:
    """A message of the user or a note of the program: fixed text."""

    def __init__(self, key: int | None, text: str, pieces: Sequence[Piece]) -> None:
        self.key, self.text = key, text
        self._pieces = list(pieces)

    @property
    def body(self) -> str:
        """The text without what was thought before it."""
        return self.text

    def pieces(self, *, marks: Marks, thoughts: bool) -> list[Piece]:  # noqa: ARG002 - an answer has several forms
        """Return what it is drawn as."""
        return self._pieces

    def code_blocks(self) -> list[str]:
        """Return the code in it."""
        return []


class LongMessage(Entry):
    """A message of the user with many lines: folded, it shows its beginning and how many lines follow."""

    def __init__(self, key: int, text: str) -> None:
        """Take its key and its text."""
        super().__init__(key, text, list(_plain(key, Sign.USER, text, "user", words=True)))
        lines = text.split("\n")
        rest = PlainBody(f"… {len(lines) - _SHOWN:,} more lines. Tab selects the message, and o opens it.", "faint")
        beginning = list(_plain(key, Sign.USER, "\n".join(lines[:_SHOWN]), "user", words=True))
        self._folded = [*beginning, Piece(key, Sign.USER, rest)]
        self._is_open = False

    def turn(self) -> None:
        """Open a folded message, or fold it again."""
        self._is_open = not self._is_open

    def pieces(self, *, marks: Marks, thoughts: bool) -> list[Piece]:  # noqa: ARG002 - an answer has several forms
        """Return what it is drawn as."""
        return self._pieces if self._is_open else self._folded


def user_entry(key: int, text: str) -> Entry:
    """Return the entry of a message of the user, as it was typed; a long one is folded."""
    if text.count("\n") >= _LONG:
        return LongMessage(key, text)
    return Entry(key, text, list(_plain(key, Sign.USER, text, "user", words=True)))


def note(text: str, kind: NoteKind) -> Entry:
    """Return the entry of something the program says; the columns of an "output" stay below each other."""
    sign = {"note": Sign.NOTE, "error": Sign.ERROR, "output": Sign.NONE}[kind]
    part = {"note": "faint", "error": "error", "output": ""}[kind]
    return Entry(None, text, list(_plain(None, sign, text, part, words=kind != "output")))


class Answer(Entry):
    """An answer: drawn as Markdown, or with marks token by token.

    Its thoughts are seen as long as nothing else is, and later if wanted.
    """

    def __init__(self, key: int, *, divides: bool = True) -> None:
        """Take its key. With `divides` thoughts are split from the answer."""
        super().__init__(key, "", ())
        self._divided = Thoughts(divides=divides)
        self._thoughts = ThoughtPieces(key, Sign.NONE)
        self._body = ""
        self._growing: Growing | None = Growing()
        self._fresh = ""
        self._certain = 0
        """Pieces of blocks that won't change any more."""
        self._ends: list[int] = []
        self._origins: list[Origin] = []
        self._probabilities: list[float | None] = []
        self._raw: list[Piece] = []
        self._raw_from = 0
        """Character that the last raw piece begins with."""
        self._raw_of = (0, 0)
        """Characters and tokens that the raw pieces were made of."""
        self._raw_marks = Marks.OFF
        """Marks of the raw pieces."""
        self._footer: list[Piece] = []

    def append(
        self, text: str, lengths: Sequence[int], origins: Sequence[Origin], probabilities: Sequence[float] = ()
    ) -> None:
        """Append text of the answer; () for `probabilities`: they were not measured."""
        self.text += text
        self._take(self._divided.feed(text))
        self._ends += list(accumulate(lengths, initial=self._ends[-1] if self._ends else 0))[1:]
        self._origins += origins
        self._probabilities += probabilities or [None] * len(origins)

    def finish(self, footer: str) -> None:
        """Set the footer of a complete answer, and parse the whole text again."""
        assert self.key is not None
        self._take(self._divided.feed("", last=True))
        self._fit(0, blocks_of(shown(self._body)))
        self._growing, self._fresh = None, ""
        self._footer = [Piece(self.key, Sign.NONE, PlainBody(shown(footer), "faint"), above=1)] if footer else []

    @property
    def body(self) -> str:
        """The text without what was thought before it."""
        return self._body

    def pieces(self, *, marks: Marks, thoughts: bool) -> list[Piece]:
        """Return what it is drawn as."""
        self._read()
        if marks is not Marks.OFF:
            self._read_raw(marks)
            return [*self._raw, *self._footer]
        return [*self._thoughts.pieces(whole=thoughts or not self._body), *self._pieces, *self._footer]

    def code_blocks(self) -> list[str]:
        """Return the code in it."""
        return code_blocks_of(self._body)

    def _take(self, parts: Parts) -> None:
        self._thoughts.append(parts.thoughts)
        self._body += parts.answer
        self._fresh += parts.answer

    def _read(self) -> None:
        # The second half of a line end may come with the next round.
        if self._growing is None or not self._fresh or self._fresh == "\r":
            return
        held = "\r" if self._fresh.endswith("\r") else ""
        self._growing.feed(shown(self._fresh.removesuffix("\r")))
        self._fresh = held
        done, still = self._growing.take()
        self._fit(self._certain, [*done, *still])
        self._certain += len(done)

    def _fit(self, start: int, blocks: Sequence[Block]) -> None:
        """Make the pieces from one on those of some blocks; what was drawn of a block that stays is kept."""
        for n, block in enumerate(blocks, start):
            if n == len(self._pieces):
                self._pieces.append(Piece(self.key, Sign.NONE, BlockBody(block), is_first=not (n or self._thoughts)))
            piece = self._pieces[n]
            piece.above = 0 if block.follows else 1
            assert isinstance(piece.body, BlockBody)
            if piece.body.block != block:
                piece.body.grow(block)
                piece.changed()
        del self._pieces[start + len(blocks) :]

    def _read_raw(self, marks: Marks) -> None:
        if marks is not self._raw_marks:
            self._raw, self._raw_from, self._raw_marks = [], 0, marks
        if self._raw_of == (len(self.text), len(self._ends)) and self._raw:
            return
        # Tokens may have come after their text, so what was last is made again.
        self._raw = self._raw[:-1]
        for start, chunk in chunks(self.text, self._raw_from):
            first = not self._raw
            body = self._tokens(start, chunk)
            self._raw.append(Piece(self.key, Sign.NONE, body, above=int(first), is_first=first))
            self._raw_from = start
        self._raw_of = len(self.text), len(self._ends)

    def _tokens(self, start: int, chunk: str) -> TokenBody:
        first = bisect_right(self._ends, start)
        last = bisect_right(self._ends, start + len(chunk)) + 1
        ends = [end - start for end in self._ends[first:last]]
        if self._raw_marks is Marks.ORIGINS:
            return TokenBody(chunk, ends, self._origins[first:last])
        return TokenBody(chunk, ends, [confidence_of(one) for one in self._probabilities[first:last]])


def _plain(key: int | None, sign: Sign, text: str, part: str, *, words: bool) -> Iterator[Piece]:
    for start, chunk in chunks(shown(text), 0):
        first = start == 0
        yield Piece(key, sign, PlainBody(chunk, part, words=words), above=int(first), is_first=first)
