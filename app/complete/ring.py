"""Pieces of files that were visited or edited lately, to be shown to the model before the one that is edited."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.text.fim import Chunk


@dataclass(frozen=True, slots=True)
class RingSize:
    """How much is kept."""

    chunks: int = 16
    """Most chunks; 0: none at all."""
    lines: int = 64
    """Lines of a chunk."""
    characters: int = 12_000
    """Most characters of all of them: they are read before the first completion in a file."""
    seconds: float = 1.0
    """Time between two new ones."""
    alike: float = 0.9
    """A chunk that shares more than this of its lines with another one takes its place."""


@dataclass(frozen=True, slots=True)
class _Piece:
    path: str
    first: int
    last: int
    chunk: Chunk
    lines: frozenset[str]


class Ring:
    """Chunks in an order that stays: what is new comes last.

    A full ring loses a quarter at once, the oldest, so that the beginning of a prompt mostly stays what it was.
    """

    def __init__(self, size: RingSize, clock: Callable[[], float]) -> None:
        self._size = size
        self._clock = clock
        self._pieces: list[_Piece] = []
        self._waiting: deque[_Piece] = deque(maxlen=max(1, size.chunks))
        self._due = clock()

    def add(self, path: str, text: str, line: int, above: int = 0) -> None:
        """Add the lines around a line of a file; two in a short time come one after the other, as time goes by.

        The text may be that of some of the file's lines, after so many others `above` it.
        """
        piece = _piece(path, text, line - above, self._size.lines, above)
        if self._size.chunks and piece.lines:
            self._waiting.append(piece)
        self._settle()

    def around(self, path: str, first: int, last: int) -> tuple[Chunk, ...]:
        """Return the chunks that show nothing of these lines of a file."""
        self._settle()
        others = (piece for piece in self._pieces if piece.path != path or piece.last < first or piece.first > last)
        return tuple(piece.chunk for piece in others)

    def _settle(self) -> None:
        """Take in what has waited for long enough."""
        now = self._clock()
        # A long time without any is no reason to take in many at once.
        self._due = max(self._due, now - self._size.seconds * (len(self._waiting) - 1))
        while self._waiting and now >= self._due:
            self._take(self._waiting.popleft())
            self._due += self._size.seconds

    def _take(self, piece: _Piece) -> None:
        alike = (place for place, other in enumerate(self._pieces) if self._are_alike(piece, other))
        place = next(alike, len(self._pieces))
        self._pieces[place : place + 1] = [piece]
        if not self._fits(1.0):
            while len(self._pieces) > 1 and not self._fits(0.75):
                del self._pieces[0]

    def _are_alike(self, some: _Piece, other: _Piece) -> bool:
        return len(some.lines & other.lines) > self._size.alike * len(some.lines | other.lines)

    def _fits(self, share: float) -> bool:
        characters = sum(len(piece.chunk.text) for piece in self._pieces)
        return len(self._pieces) <= self._size.chunks * share and characters <= self._size.characters * share


def chunks_of(filename: str, text: str, lines: int) -> tuple[Chunk, ...]:
    """Return a whole file in chunks of so many lines."""
    all_ = _lines(text)
    parts = ("\n".join(all_[start : start + lines]) for start in range(0, len(all_), lines))
    return tuple(Chunk(filename, part) for part in parts if part.strip())


def _piece(path: str, text: str, line: int, lines: int, above: int) -> _Piece:
    """Return so many lines around a line of a text, fewer only in a shorter one."""
    all_ = _lines(text)
    first = max(0, min(line - lines // 2, len(all_) - lines))
    shown = all_[first : first + lines]
    return _Piece(path, above + first, above + first + len(shown) - 1, Chunk(path, "\n".join(shown)), _telling(shown))


def _telling(lines: Sequence[str]) -> frozenset[str]:
    return frozenset(bare for line in lines if (bare := line.strip()))


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
