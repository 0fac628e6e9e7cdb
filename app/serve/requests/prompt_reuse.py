"""What an editor asks with each line, put so that the prompt stays: read again are the lines that were written.

A model reads prefix, suffix, and then the middle. An editor's prefix ends where the cursor's line begins, so each line
that is written moves the suffix; and in a long file its prefix is a window of so many lines, so each line moves all of
it. Here a prefix keeps the end that it had when its suffix was first seen: what was written since begins the middle. A
window that slides begins at the line where it began before, and up to a quarter of it is left out.

Editors ask ahead: after each completion that they show, they ask as if it were accepted. Such a window slid by the
completion's lines, and ends in lines that may never be written; the next one may be above it again.
"""

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from models.text.fim import Infill

_CLIENTS = 16
"""Clients that are remembered."""
_KEPT = 8
"""Places that are remembered of each: as many files, or places of one, can be written in by turns."""
_LONGEST = 1 << 17
"""Characters of a prefix, from which on it is no window of lines, and nothing is looked for in it."""
_HEAD = 3
"""Lines by which the top of a window is looked for in another."""
_TRIES = 16
"""Places with such lines that are compared: a text may be nothing but blank lines."""
_LEFT_OUT = 4
"""One part in so many of a window that slides, of its lines as of its characters, may be left out at its top."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A place that was asked about: the window above it, and from where to where that was put before the hole."""

    window: str
    start: int
    end: int
    around: int
    """Hash of what else is around it; where two are the same by chance, another part of the same text is put."""


_Alike = Sequence[tuple[_Place, int]]
"""Places whose windows show the same text, the last first, and how far the new window slid down from each."""


class PromptReuse:
    """Remembers for each client the last places that it asked about: nobody's prompts depend on who else asks."""

    def __init__(self) -> None:
        self._clients: OrderedDict[Hashable, _Client] = OrderedDict()

    def infill(self, client: Hashable, infill: Infill, most: int) -> Infill:
        """Return a hole with the same text around the same place, put as one before it where that is possible.

        At most `most` bytes of it begin the middle, where more was not begun already.
        """
        if not 0 < len(infill.prefix) <= _LONGEST:
            return infill
        remembered = self._clients.setdefault(client, _Client())
        self._clients.move_to_end(client)
        if len(self._clients) > _CLIENTS:
            self._clients.popitem(last=False)
        return remembered.infill(infill, most)


class _Client:
    """The last places that one client asked about."""

    def __init__(self) -> None:
        self._places: deque[_Place] = deque(maxlen=_KEPT)
        self._height = 0
        """Lines of the windows that were seen to slide; 0: none was."""

    def infill(self, infill: Infill, most: int) -> Infill:
        window, around = infill.prefix, hash((infill.suffix, infill.chunks))
        shifts = [(seen, _shift(seen.window, window)) for seen in self._places]
        alike = [(seen, shift) for seen, shift in shifts if shift is not None]
        if _slides(alike, around):
            self._height = window.count("\n")
        start = self._start(window, alike)
        end = _end(_Place(window, start, len(window), around), alike, infill.begun, most)
        self._remember(_Place(window, start, end, around), alike)
        return replace(infill, prefix=window[start:end], begun=window[end:] + infill.begun)

    def _start(self, window: str, alike: _Alike) -> int:
        """Return where to begin with a window: at the line where another began, if that is still near its top."""
        last = self._last(window)
        for seen, shift in alike:
            if 0 <= (start := seen.start - shift) <= last:
                return start
        if not alike:
            return 0
        # Where both can begin, as far on as possible: what is asked next may be at either of the two places.
        seen, shift = alike[0]
        start = self._last(seen.window) - shift if shift > 0 else -shift
        return start if 0 <= start <= last else last if shift > 0 else 0

    def _last(self, window: str) -> int:
        """Return the offset of the last line that a window may begin with."""
        lines = window.count("\n")
        if lines != self._height:
            return 0
        by_characters = window.rfind("\n", 0, len(window) // _LEFT_OUT) + 1
        return min(_line(window, lines // _LEFT_OUT), by_characters)

    def _remember(self, place: _Place, alike: _Alike) -> None:
        """Remember a place, in place of any that was put as it is: a file is not forgotten for the lines of another."""
        for seen, shift in alike:
            if (seen.start - shift, seen.end - shift, seen.around) == (place.start, place.end, place.around):
                self._places.remove(seen)
        self._places.appendleft(place)


def _slides(alike: _Alike, around: int) -> bool:
    """Tell whether a window slides, and is not the beginning of a file whose first line was deleted.

    Then as many lines were written at its end, before the same text, as it lost; or it is the third in one text.
    """
    slid = [(seen, shift) for seen, shift in alike if shift]
    return any(seen.around == around for seen, _ in slid) or len({shift for _, shift in slid}) > 1


def _end(asked: _Place, alike: _Alike, begun: str, most: int) -> int:
    """Return where the prefix ends: as late as at another place, where that is the same text and not too far up."""
    window, start = asked.window, asked.start

    def fits(end: int, most: int) -> bool:
        # Half of it at least is before the hole: the beginning of another file like this one is not taken for it.
        return 2 * (end - start) >= len(window) - start and len((window[end:] + begun).encode()) <= most

    same = [(seen, shift) for seen, shift in alike if seen.around == asked.around]
    begins = [(seen, shift) for seen, shift in same if seen.start - shift == start]
    ends = [seen.end - shift for seen, shift in begins if window.startswith(seen.window[seen.start : seen.end], start)]
    if kept := [end for end in ends if fits(end, most)]:
        return max(kept)
    # What is asked ahead must not be the prefix of what is asked next: here the two part.
    parting = _parting(*same[0], asked) if same else 0
    return parting if fits(parting, most) else len(window)


def _parting(seen: _Place, shift: int, asked: _Place) -> int:
    """Return the offset of the first line of a window that is not the same at another place; 0 where all differ."""
    top = max(asked.start, -shift)
    one, other = asked.window[top:], seen.window[top + shift :]
    common = bisect_left(range(min(len(one), len(other))), 1, key=lambda place: one[: place + 1] != other[: place + 1])
    return asked.window.rfind("\n", top, top + common) + 1


def _shift(before: str, after: str) -> int | None:
    """Return how far a window slid down over its text, below 0 for up; None where it shows another text.

    Half of it is compared: it ends in lines that were written, or asked ahead. A window that slides keeps its number
    of lines; one that begins elsewhere with another number is that of a file whose first lines were edited.
    """
    half = max(len(before), len(after)) // 2
    slides = before.count("\n") == after.count("\n")
    if half > min(len(before), len(after)):
        return None
    for early, late, sign in ((before, after, 1), (after, before, -1)):
        head, place = late[: _line(late, _HEAD)], -1
        for _ in range(_TRIES):
            if (place := early.find(head, place + 1)) < 0 or (place and not slides):
                break
            whole_line = not place or early[place - 1] == "\n"
            if whole_line and early.startswith(late[:half], place):
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
