"""Chunks of recently visited or edited files, shown to the model before the edited file."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.text.fim import Chunk


@dataclass(frozen=True, slots=True)
class RingSize:
    """Limits of the ring."""

    chunks: int = 16
    """Maximum chunks; 0: none."""
    lines: int = 64
    """Lines per chunk."""
    characters: int = 12_000
    """Maximum characters of all chunks: they are read before the first completion in a file."""
    seconds: float = 1.0
    """Minimum seconds between two new chunks."""
    alike: float = 0.9
    """Share of common lines above which a new chunk replaces an old one."""


@dataclass(frozen=True, slots=True)
class _Piece:
    path: str
    first: int
    last: int
    chunk: Chunk
    lines: frozenset[str]


class Ring:
    """Chunks in stable order, newest last.

    A full ring drops its oldest quarter at once, so that the beginning of prompts mostly stays unchanged.
    """

    def __init__(self, size: RingSize, clock: Callable[[], float]) -> None:
        self._size = size
        self._clock = clock
        self._pieces: list[_Piece] = []
        self._waiting: deque[_Piece] = deque(maxlen=max(1, size.chunks))
        self._due = clock()

    def add(self, path: str, text: str, line: int, above: int = 0) -> None:
        """Add the lines around a line of a file; additions in a short time are taken in one after the other.

        The text may hold a part of the file's lines, after so many others `above` it.
        """
        piece = _piece(path, text, line - above, self._size.lines, above)
        if self._size.chunks and piece.lines:
            self._waiting.append(piece)
        self._settle()

    def around(self, path: str, first: int, last: int) -> tuple[Chunk, ...]:
        """Return the chunks that do not overlap these lines of a file."""
        self._settle()
        others = (piece for piece in self._pieces if piece.path != path or piece.last < first or piece.first > last)
        return tuple(piece.chunk for piece in others)

    def _settle(self) -> None:
        """Take in a chunk that has waited long enough."""
        now = self._clock()
        # A long pause does not allow several chunks at once.
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
    """Return so many lines around a line of a text, fewer only for a shorter text."""
    all_ = _lines(text)
    first = max(0, min(line - lines // 2, len(all_) - lines))
    shown = all_[first : first + lines]
    return _Piece(path, above + first, above + first + len(shown) - 1, Chunk(path, "\n".join(shown)), _telling(shown))


def _telling(lines: Sequence[str]) -> frozenset[str]:
    return frozenset(bare for line in lines if (bare := line.strip()))


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
