"""A column of pieces and their rows; most heights are estimates until a piece is drawn."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.ui.transcript.look import Look
from app.ui.transcript.pieces import Piece


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line of a piece that must not move on the screen while heights above it change."""

    piece: Piece
    height: int
    """Lines of the piece when the anchor was taken; 0: any."""
    row: int
    """Line within the piece."""
    y: int
    """Line of the screen."""


class Column:
    """The pieces of a transcript, for one width and one look."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._tops = [0]
        self._heights: list[int] = []
        self._estimated: set[int] = set()
        """Pieces that may not have been drawn since they were taken: a look at each of a long chat takes long."""
        self._width = 1
        self._look: Look | None = None

    @property
    def height(self) -> int:
        """Lines of all of them."""
        return self._tops[-1]

    def lay(self, pieces: Sequence[Piece], width: int, look: Look, *, kept: int = 0) -> None:
        """Take the pieces as they are now; the first `kept` are the same as before, and so are width and look."""
        self.pieces[kept:] = pieces[kept:]
        self._width, self._look = width, look
        self._heights[kept:] = [piece.height(width, look) for piece in self.pieces[kept:]]
        fresh = {n for n, piece in enumerate(self.pieces[kept:], kept) if not piece.is_drawn(width, look)}
        self._estimated = {n for n in self._estimated if n < kept} | fresh
        self.settle(kept)

    def settle(self, start: int = 0) -> None:
        """Set the heights of a piece and of those after it, as found by drawing."""
        self._tops[start:] = accumulate(self._heights[start:], initial=self._tops[start])

    def at(self, y: int) -> tuple[int, int] | None:
        """Return which piece is at a line, and the line within it; None outside."""
        if not 0 <= y < self.height:
            return None
        index = bisect_right(self._tops, y) - 1
        return index, y - self._tops[index]

    def top(self, index: int) -> int:
        """Return the first line of a piece, or for the number of pieces the line after the last."""
        return self._tops[index]

    def draw(self, start: int, stop: int) -> bool:
        """Draw what stands in some lines; return whether heights have changed."""
        first, last = self.at(max(0, start)), self.at(min(stop, self.height) - 1)
        if not first or not last:
            return False
        changed = [index for index in range(first[0], last[0] + 1) if self.draw_one(index)]
        if changed:
            self.settle(changed[0])
        return bool(changed)

    def draw_one(self, index: int) -> bool:
        """Draw a piece; return whether its height has changed. `settle` comes after."""
        assert self._look is not None
        piece = self.pieces[index]
        piece.lines(self._width, self._look)
        self._heights[index] = piece.height(self._width, self._look)
        self._estimated.discard(index)
        return self._heights[index] != self._height(index)

    @property
    def has_estimates(self) -> bool:
        """Whether the height of a piece is a guess."""
        return bool(self._estimated)

    def undrawn(self, near: int) -> list[int]:
        """Return the pieces whose heights are guesses, the ones nearest to a piece first."""
        return sorted(self._estimated, key=lambda n: abs(n - near))

    def anchor(self, start: int, stop: int) -> Anchor | None:
        """Return the first line on the screen of a piece that is drawn there, else of any."""
        first, last = self.at(start), self.at(min(stop, self.height) - 1)
        if first is None or last is None or self._look is None:
            return None
        seen = range(first[0], last[0] + 1)
        drawn = (n for n in seen if self.pieces[n].is_drawn(self._width, self._look))
        index = next(drawn, first[0])
        row = max(0, start - self.top(index))
        return Anchor(self.pieces[index], self._height(index), row, self.top(index) + row - start)

    def row_of(self, anchor: Anchor) -> int | None:
        """Return the line that has to be the first on the screen for an anchor to stay; None: it is gone."""
        index = next((n for n, piece in enumerate(self.pieces) if piece is anchor.piece), None)
        if index is None:
            return None
        above, row = anchor.piece.above, anchor.row
        if anchor.height > above:
            # At another width it is about as far down the text as it was.
            row += round(max(0, row - above) * (self._height(index) - anchor.height) / (anchor.height - above))
        return self.top(index) + row - anchor.y

    def _height(self, index: int) -> int:
        return self._tops[index + 1] - self._tops[index]
