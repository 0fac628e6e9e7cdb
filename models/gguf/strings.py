"""Arrays of strings in a GGUF, each string after its length: scanned once, then recognised by their bytes.

Nearly all of a header is such arrays, the vocabulary and its merges, and where one ends only going through it tells. A
vocabulary has up to a quarter of a million tokens, and most models of one machine share theirs with others.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from struct import Struct

from models.errors import ModelFileError

LENGTH = Struct("<Q")
_MANY = 1 << 12
"""Strings from which on an array is worth remembering."""
_SAMPLES = 8
"""Places at which an array is compared with a known one."""
_SAMPLE = 1 << 12
_MOST_KNOWN = 1 << 10
_MOST_ALIKE = 16
"""Known arrays of as many strings that another is compared with."""

Found = dict[str, int | None]
"""Index of each wanted string in an array; None for a missing one."""


class Strings:
    """The strings of one array; `find` and `split` raise ModelFileError where their lengths lead out of it."""

    def __init__(self, data: bytes, count: int, name: str) -> None:
        """Take the bytes of so many strings, each after its length, and the name of the file they are in."""
        self.data = data
        self._count = count
        self._name = name

    def find(self, spelling: str) -> int | None:
        """Return the place in the array of the first string that is spelled so; None for none."""
        wanted = spelling.encode()
        at, counted = -1, LENGTH.pack(len(wanted)) + wanted
        while (at := self.data.find(counted, at + 1)) >= 0:
            place = bisect_left(self._starts, at)
            # The same bytes may stand inside of another string.
            if place < self._count and self._starts[place] == at:
                return place
        return None

    def split(self) -> list[bytes]:
        """Return the strings one by one."""
        data, size = self.data, LENGTH.size
        return [data[start + size : end] for start, end in pairwise([*self._starts, len(data)])]

    @cached_property
    def _starts(self) -> list[int]:
        """Place of each string in the bytes; raises ModelFileError."""
        starts, at, data, unpack, last = [], 0, self.data, LENGTH.unpack_from, len(self.data) - LENGTH.size
        for _ in range(self._count):
            if at > last:
                break
            starts.append(at)
            at += LENGTH.size + unpack(data, at)[0]
        # An array that was taken for a known one (see below) was not gone through before.
        if len(starts) < self._count or at != len(data):
            raise self._damaged()
        return starts

    def _damaged(self) -> ModelFileError:
        return ModelFileError(
            f"{self._name} is damaged.",
            cause=f"The lengths of its {self._count:,} strings do not lead to their end.",
            hint="Fetch it again, and compare its size with the publisher's.",
        )


@dataclass(frozen=True, slots=True)
class KnownArray:
    """An array that was gone through."""

    size: int
    """Bytes it takes."""
    samples: tuple[bytes, ...]
    """Bytes at its beginning, at its end, and at places between."""
    found: Found = field(default_factory=dict)


class KnownStrings:
    """Arrays that were gone through, by which others are recognized.

    One that is as long, and the same wherever it is looked at, is taken for the same. That is enough to find the way
    through a header and to describe a model in a list; what is loaded is gone through as a whole.
    """

    def __init__(self) -> None:
        self._known: dict[int, list[KnownArray]] = {}
        self._left = _MOST_KNOWN

    def like(self, count: int, read: Callable[[int, int], bytes]) -> KnownArray | None:
        """Return the known array that one of so many strings is; `read` returns bytes of it, from a place on."""
        for known in self._known.get(count, ()):
            places = zip(_places(known.size), known.samples, strict=True)
            if all(read(place, _SAMPLE) == sample for place, sample in places):
                return known
        return None

    def add(self, count: int, size: int, read: Callable[[int, int], bytes]) -> KnownArray | None:
        """Remember an array of so many strings and bytes; None for one too short for it, or one too many."""
        if count < _MANY or len(self._known.get(count, ())) >= _MOST_ALIKE or not self._left:
            return None
        self._left -= 1
        known = KnownArray(size, tuple(read(place, _SAMPLE) for place in _places(size)))
        self._known.setdefault(count, []).append(known)
        return known


def _places(size: int) -> list[int]:
    """Return where an array of so many bytes is compared: at its beginning, its end, and between."""
    return [index * (size - _SAMPLE) // (_SAMPLES - 1) for index in range(_SAMPLES)]
