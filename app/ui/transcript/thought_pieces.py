"""Thoughts before an answer: shown while generated, afterwards folded into one line or shown whole."""

from app.shell.safe_text import shown
from app.ui.transcript.bodies import PlainBody
from app.ui.transcript.chunks import chunks
from app.ui.transcript.pieces import Piece
from models.system.counted import counted

_PART = "faint"


class ThoughtPieces:
    """Thoughts that may still grow, and what they are drawn as."""

    def __init__(self, key: int | None, sign: str) -> None:
        """Take the message they belong to, and the sign beside them."""
        self._key, self._sign = key, sign
        self._text = ""
        self._pieces: list[Piece] = []
        self._last_from = 0
        """Character that the last piece begins with."""
        self._made_of = 0
        """Characters that the pieces were made of."""
        self._line: Piece | None = None

    def __bool__(self) -> bool:
        """Whether anything was thought."""
        return bool(self._text)

    def append(self, text: str) -> None:
        """Append text to the thoughts."""
        self._text += text

    def pieces(self, *, whole: bool) -> list[Piece]:
        """Return them below a line that says what they are, or that line alone."""
        if not self._text:
            return []
        return [self._heading(), *self._read()] if whole else [self._heading()]

    def _heading(self) -> Piece:
        if self._line is None or self._made_of != len(self._text):
            heading = f"Thought {counted(len(self._text.split()), 'word')} (/thoughts shows or hides them)"
            self._line = Piece(self._key, self._sign, PlainBody(heading, _PART), above=1, is_first=True)
            self._read()
        return self._line

    def _read(self) -> list[Piece]:
        if self._made_of != len(self._text):
            # What was the last may go on.
            del self._pieces[-1:]
            for start, chunk in chunks(self._text, self._last_from):
                self._pieces.append(Piece(self._key, self._sign, PlainBody(shown(chunk), _PART)))
                self._last_from = start
            self._made_of = len(self._text)
        return self._pieces
