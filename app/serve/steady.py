"""What an editor asks with each line, put so that the prompt stays: read again are the lines that were written.

A model reads prefix, suffix, and then the middle. An editor's prefix ends where the cursor's line begins, so each line
that is written moves the suffix; and in a long file its prefix is a window of so many lines, so each line moves all of
it. Here a prefix keeps the end that it had when its suffix was first seen: what was written since begins the middle. A
window that was seen to slide begins at the line where it began before, and up to a quarter of it is left out.
"""

from collections import deque
from dataclasses import dataclass, replace
from typing import TypeVar

from models.fim import Hole

_T = TypeVar("_T")

_KEPT = 4
"""Places that are remembered: as many files, or clients, can be written in by turns."""
_LONGEST = 1 << 18
"""Characters of a prefix, from which on it is no window of lines, and nothing is looked for in it."""
_HEAD = 3
"""Lines by which the top of a window is looked for in another."""
_TRIES = 16
"""Places with such lines that are compared: a text may be nothing but blank lines."""
_LEFT_OUT = 4
"""One line in so many of a window that slides is left out when it begins anew."""


@dataclass(frozen=True, slots=True)
class _Window:
    """A prefix as it was asked with, and the offset in it from where on it was used."""

    prefix: str
    start: int


class Steady:
    """Remembers the last places that were asked about."""

    def __init__(self) -> None:
        self._windows: deque[_Window] = deque(maxlen=_KEPT)
        self._holes: deque[Hole] = deque(maxlen=_KEPT)

    def hole(self, hole: Hole, most: int) -> Hole:
        """Return a hole with the same text around the same place, put as one before it where that is possible.

        At most `most` bytes of it begin the middle, where more was not begun already.
        """
        if not 0 < len(hole.prefix) <= _LONGEST:
            return hole
        hole = replace(hole, prefix=hole.prefix[self._start(hole.prefix) :])
        for seen in self._holes:
            begun = hole.prefix[len(seen.prefix) :] + hole.begun
            around = (hole.chunks, hole.suffix) == (seen.chunks, seen.suffix)
            if around and hole.prefix.startswith(seen.prefix) and len(begun.encode()) <= most:
                _to_front(self._holes, seen, seen)
                return replace(seen, begun=begun)
        self._holes.appendleft(hole)
        return hole

    def _start(self, prefix: str) -> int:
        """Return where to begin with a prefix: at the line where it began before, if that is still near its top."""
        for seen in self._windows:
            if (shift := _shift(seen.prefix, prefix)) is not None:
                start, last = seen.start - shift, _line(prefix, prefix.count("\n") // _LEFT_OUT)
                if not 0 <= start <= last:
                    # Room for what comes next: below there is more text to be left out, above there is none.
                    start = last if start < 0 else 0
                _to_front(self._windows, seen, _Window(prefix, start))
                return start
        self._windows.appendleft(_Window(prefix, 0))
        return 0


def _shift(before: str, after: str) -> int | None:
    """Return how far a window slid down over its text, below 0 for up; None where they have not half in common."""
    for early, late, sign in ((before, after, 1), (after, before, -1)):
        head, place = late[: _line(late, _HEAD)], -1
        for _ in range(_TRIES):
            if (place := early.find(head, place + 1)) < 0:
                break
            common = min(len(early) - place, len(late))
            whole_line = not place or early[place - 1] == "\n"
            much = 2 * common >= max(len(early), len(late))
            if whole_line and much and early.startswith(late[:common], place):
                return sign * place
    return None


def _line(text: str, number: int) -> int:
    """Return the offset of a line, counted from 0; the text's end where it has fewer."""
    place = 0
    for _ in range(number):
        place = text.find("\n", place) + 1
        if not place:
            return len(text)
    return place


def _to_front(kept: deque[_T], old: _T, new: _T) -> None:
    kept.remove(old)
    kept.appendleft(new)
