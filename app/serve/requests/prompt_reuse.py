"""Reuse of cached prompts between an editor's infill requests: only newly written lines are read again.

A model reads prefix, suffix, and then the middle. An editor's prefix ends where the cursor's line begins, so each line
that is written moves the suffix; and in a long file its prefix is a window of so many lines, so each line moves all of
it. Here a prefix keeps the end that it had when its suffix was first seen: text written since begins the middle. A
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
"""Maximum number of remembered clients."""
_KEPT = 8
"""Maximum places remembered per client: as many files, or places in one, can be edited in turn."""
_LONGEST = 1 << 17
"""Maximum characters of a prefix that is treated as a window of lines."""
_HEAD = 3
"""Number of first lines by which the top of a window is found in another."""
_TRIES = 16
"""Maximum matching places that are compared: a text may consist of blank lines."""
_LEFT_OUT = 4
"""Divisor: the part of a sliding window, in lines and in characters, that may be left out at its top."""


@dataclass(frozen=True, slots=True)
class _RememberedPlace:
    """A remembered place: the window above it, and the part of that window that was put before the gap."""

    window: str
    start: int
    end: int
    around: int
    """Hash of the other text around it. A chance collision only reuses another part of this text."""


_Alike = Sequence[tuple[_RememberedPlace, int]]
"""Places whose windows show this text, latest first, each with the lines that the new window slid down from it."""


class PromptReuse:
    """The last places of each client. One client's prompts never depend on another's requests."""

    def __init__(self) -> None:
        self._clients: OrderedDict[Hashable, _Client] = OrderedDict()

    def infill(self, client: Hashable, infill: Infill, most: int) -> Infill:
        """Return an equivalent infill request whose prompt begins like an earlier one where possible.

        At most `most` bytes of the prefix move into the middle, unless more of it already had.
        """
        if not 0 < len(infill.prefix) <= _LONGEST:
            return infill
        remembered = self._clients.setdefault(client, _Client())
        self._clients.move_to_end(client)
        if len(self._clients) > _CLIENTS:
            self._clients.popitem(last=False)
        return remembered.infill(infill, most)


class _Client:
    """The last places that one client requested."""

    def __init__(self) -> None:
        self._places: deque[_RememberedPlace] = deque(maxlen=_KEPT)
        self._height = 0
        """Lines in windows that were seen to slide; 0: none seen."""

    def infill(self, infill: Infill, most: int) -> Infill:
        window, around = infill.prefix, hash((infill.suffix, infill.chunks))
        shifts = [(seen, _shift(seen.window, window)) for seen in self._places]
        alike = [(seen, shift) for seen, shift in shifts if shift is not None]
        if _slides(alike, around):
            self._height = window.count("\n")
        start = self._start(window, alike)
        end = _end(_RememberedPlace(window, start, len(window), around), alike, infill.begun, most)
        self._remember(_RememberedPlace(window, start, end, around), alike)
        return replace(infill, prefix=window[start:end], begun=window[end:] + infill.begun)

    def _start(self, window: str, alike: _Alike) -> int:
        """Return the offset where the window begins: an earlier window's first line, if that is still near the top."""
        last = self._last(window)
        for seen, shift in alike:
            if 0 <= (start := seen.start - shift) <= last:
                return start
        if not alike:
            return 0
        # If both places can begin there, the latest such line: the next request may be at either place.
        seen, shift = alike[0]
        start = self._last(seen.window) - shift if shift > 0 else -shift
        return start if 0 <= start <= last else last if shift > 0 else 0

    def _last(self, window: str) -> int:
        """Return the offset of the last line at which a window may begin."""
        lines = window.count("\n")
        if lines != self._height:
            return 0
        by_characters = window.rfind("\n", 0, len(window) // _LEFT_OUT) + 1
        return min(_line(window, lines // _LEFT_OUT), by_characters)

    def _remember(self, place: _RememberedPlace, alike: _Alike) -> None:
        """Remember a place, replacing one with an equal prompt: lines of one file must not displace another file."""
        for seen, shift in alike:
            if (seen.start - shift, seen.end - shift, seen.around) == (place.start, place.end, place.around):
                self._places.remove(seen)
        self._places.appendleft(place)


def _slides(alike: _Alike, around: int) -> bool:
    """Tell whether a window slides, as opposed to a file whose first lines were deleted.

    A sliding window gained as many lines at its end, before an equal suffix, as it lost; or it is the third in one
    text.
    """
    slid = [(seen, shift) for seen, shift in alike if shift]
    return any(seen.around == around for seen, _ in slid) or len({shift for _, shift in slid}) > 1


def _end(wanted: _RememberedPlace, alike: _Alike, begun: str, most: int) -> int:
    """Return the end of the prefix: an earlier place's end if the text up to it is equal and it is not too far up."""
    window, start = wanted.window, wanted.start

    def fits(end: int, most: int) -> bool:
        # At least half stays before the gap, so that another file with an equal beginning does not match.
        return 2 * (end - start) >= len(window) - start and len((window[end:] + begun).encode()) <= most

    same = [(seen, shift) for seen, shift in alike if seen.around == wanted.around]
    begins = [(seen, shift) for seen, shift in same if seen.start - shift == start]
    ends = [seen.end - shift for seen, shift in begins if window.startswith(seen.window[seen.start : seen.end], start)]
    if kept := [end for end in ends if fits(end, most)]:
        return max(kept)
    # The prefix of a request ahead of time must not become the prefix of the next one: the two differ from here.
    parting = _parting(*same[0], wanted) if same else 0
    return parting if fits(parting, most) else len(window)


def _parting(seen: _RememberedPlace, shift: int, wanted: _RememberedPlace) -> int:
    """Return the offset of the first line that differs from another place's window; 0 if all lines differ."""
    top = max(wanted.start, -shift)
    one, other = wanted.window[top:], seen.window[top + shift :]
    common = bisect_left(range(min(len(one), len(other))), 1, key=lambda place: one[: place + 1] != other[: place + 1])
    return wanted.window.rfind("\n", top, top + common) + 1


def _shift(before: str, after: str) -> int | None:
    """Return by how many characters a window slid down over its text, negative for up; None for another text.

    Half of the window is compared: its end may have been written, or requested ahead of time.

    A sliding window keeps its number of lines; a window with another start and number belongs to a file whose first
    lines were edited.
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
    """Return the offset of a line, counted from 0; the end of the text if it has fewer lines."""
    place = 0
    for _ in range(number):
        place = text.find("\n", place) + 1
        if not place:
            return len(text)
    return place
