"""Pieces of a transcript: each is drawn when it is first seen, and its lines are kept for that width."""

from collections.abc import Iterator
from itertools import count

from app.ui.drawing.wrapping import Line
from app.ui.transcript.bodies import Body
from app.ui.transcript.code_lines import MARK
from app.ui.transcript.look import Look

_serials = count()


class Piece:
    """A body, the blank lines above it, and what was drawn of it."""

    def __init__(self, key: int | None, sign: str, body: Body, *, above: int = 0, is_first: bool = False) -> None:
        """Take the message it belongs to, the sign beside it, the body, the blank lines above, and if it begins it."""
        self.key, self.sign, self.body, self.above, self.is_first = key, sign, body, above, is_first
        self._lines: list[Line] | None = None
        self._last: list[Line] = []
        """Lines that were drawn before the body changed."""
        self._serials: list[int] = []
        self._for: tuple[int, Look] | None = None
        self._proposal = (0, 0)
        """A width, and the estimated height at it."""

    def is_drawn(self, width: int, look: Look) -> bool:
        """Return whether its height is known."""
        return self._lines is not None and self._for == (width, look)

    def lines(self, width: int, look: Look) -> list[Line]:
        """Return the body's lines."""
        if self._lines is None or self._for != (width, look):
            self._lines, self._for = self.body.lines(width, look), (width, look)
            same = zip(self._lines, self._last, self._serials, strict=False)
            kept = [serial if line == last else next(_serials) for line, last, serial in same]
            self._serials = kept + [next(_serials) for _ in self._lines[len(kept) :]]
            self._last = self._lines
        return self._lines

    def serial(self, row: int) -> int:
        """Return a number that stands for the content of a row: another one for another content; -1: it is blank."""
        index = row - self.above
        return self._serials[index] if 0 <= index < len(self._serials) else -1

    def height(self, width: int, look: Look) -> int:
        """Return the number of lines, blank ones included; an estimate until it is drawn at that width."""
        if self._lines is not None and self._for == (width, look):
            return self.above + len(self._lines)
        if self._proposal[0] != width:
            self._proposal = width, self.body.proposal(width)
        return self.above + self._proposal[1]

    def changed(self) -> None:
        """Forget what was drawn, because the body has changed."""
        self._lines, self._proposal = None, (0, 0)

    def code_rows(self, width: int, look: Look) -> Iterator[int]:
        """Yield the first row of each code block in it."""
        if not self.body.may_have_code:
            return
        for row, line in enumerate(self.lines(width, look), self.above):
            if any(part.style and part.style.meta.get(MARK) for part in line):
                yield row
