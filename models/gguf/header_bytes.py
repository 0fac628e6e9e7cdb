"""Reader of a file's bytes, front to back, through a window: each length is checked against the file and a limit first.

Whatever a damaged or hostile file claims, the memory used stays within a few windows, and the time within a few seconds
at worst: see the limits below.
"""

from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from struct import Struct
from typing import Any, NoReturn

from models.errors import ModelFileError
from models.gguf.strings import LENGTH, Found, KnownStrings

LONGEST_ARRAY = 1 << 20
"""Elements of one array; the largest vocabularies have a quarter of a million tokens, and twice as many merges."""
_MOST_ELEMENTS = 1 << 22
"""Elements of all arrays of a header together."""
_LONGEST_HEADER = 1 << 28
"""Bytes before the weights."""
_LONGEST_STRING = 1 << 24
_MOST_TEXT = 1 << 25
"""Bytes of all strings that are kept in memory."""
_AHEAD, _WINDOW = 1 << 15, 1 << 18
"""Bytes that are read together: what is between two arrays, or the tensors; and within an array of strings."""
_COUNT = Struct("<I")


class HeaderBytes:
    """Reads the header of an open file; every method raises ModelFileError rather than read beyond a limit."""

    def __init__(self, file: BufferedReader, path: Path, known: KnownStrings | None = None) -> None:
        self.file_size = file.seek(0, 2)
        self._file = file
        self._path = path
        self._known = known
        self._start = self._at = 0
        # One piece of memory for all windows: fresh pages cost more than what is read into them.
        self._room = memoryview(bytearray(_AHEAD))
        self._window = self._room[:0]
        self._elements = self._text = 0

    @property
    def position(self) -> int:
        """Place in the file of the byte that is read next."""
        return self._start + self._at

    def number(self, form: Struct) -> int | float | bool:
        """Read one number of this form."""
        value: int | float | bool = self.numbers(form)[0]
        return value

    def numbers(self, form: Struct) -> tuple[Any, ...]:
        """Read the numbers of this form."""
        if self._at + form.size > len(self._window):
            self._fill(form.size)
        values = form.unpack_from(self._window, self._at)
        self._at += form.size
        return values

    def count(self, form: Struct, most: int, what: str) -> int:
        """Read a number of things of which a header may have so many."""
        value = int(self.number(form))
        if value > most:
            self.damaged(f"it claims {value:,} {what}; at most {most:,} are accepted")
        return value

    def text(self, most: int = _LONGEST_STRING) -> str:
        """Read a string; bytes that are no UTF-8 become replacement characters."""
        size = self.count(LENGTH, most, "bytes in one string")
        self._text += size
        if self._text > _MOST_TEXT:
            self.damaged(f"its strings take more than {_MOST_TEXT:,} bytes")
        self._fill(size)
        self._at += size
        return str(self._window[self._at - size : self._at], "utf-8", "replace")

    def entry(self, longest: int, forms: Sequence[Struct], what: str) -> tuple[str, tuple[int, ...]]:
        """Read a name, a number of things, and the numbers whose form that number chooses."""
        at, window = self._at + LENGTH.size, self._window
        # A header has hundreds of these, so the usual one is read with three looks.
        if at + longest + _COUNT.size + forms[-1].size <= len(window):
            end = at + LENGTH.unpack_from(window, self._at)[0]
            if end <= at + longest and self._text + longest <= _MOST_TEXT:
                count: int = _COUNT.unpack_from(window, end)[0]
                if count < len(forms):
                    self._text += end - at
                    self._at = end + _COUNT.size + forms[count].size
                    return str(window[at:end], "utf-8", "replace"), forms[count].unpack_from(window, end + _COUNT.size)
        name = self.text(longest)
        return name, self.numbers(forms[self.count(_COUNT, len(forms) - 1, what)])

    def skip(self, size: int) -> None:
        """Go on so many bytes further."""
        self._check_within(self.position + size)
        self._at += size

    def claim(self, elements: int) -> None:
        """Count the elements of an array against what a header may have."""
        self._elements += elements
        if self._elements > _MOST_ELEMENTS:
            self.damaged(f"its arrays have more than {_MOST_ELEMENTS:,} elements")

    def strings(self, count: int) -> Found:
        """Go past so many strings, and return what was found in others like these."""
        start = self.position

        def read(place: int, size: int) -> bytes:
            self._file.seek(start + place)
            return self._file.read(size)

        if self._known and (known := self._known.like(count, read)):
            self.skip(known.size)
            return known.found
        self._skip_strings(count)
        added = self._known and self._known.add(count, self.position - start, read)
        return added.found if added else {}

    def damaged(self, cause: str) -> NoReturn:
        """Raise the error for a file that can't be what it says it is."""
        raise ModelFileError(
            f"{self._path.name} is damaged.",
            cause=f"{cause[0].upper()}{cause[1:]} (at byte {self.position:,}).",
            hint="Fetch it again, and compare its size with the publisher's.",
        )

    def _skip_strings(self, count: int) -> None:
        """Go past so many strings, reading their lengths alone."""
        while count:
            self._fill(LENGTH.size, _WINDOW)
            window, at, last = self._window, self._at, len(self._window) - LENGTH.size
            unpack = LENGTH.unpack_from
            for left in range(count, 0, -1):
                if at > last:
                    count = left
                    break
                (size,) = unpack(window, at)
                at += 8 + size
            else:
                count = 0
            # Only the last length can lead out of the window, since the loop ends there.
            self._check_within(self._start + at)
            self._at = at

    def _fill(self, size: int, ahead: int = _AHEAD) -> None:
        """Have the next `size` bytes in the window, and some more."""
        if self._at + size <= len(self._window):
            return
        self._check_within(self.position + size)
        self._start, self._at = self.position, 0
        if len(self._room) < max(size, ahead):
            self._room = memoryview(bytearray(max(size, ahead)))
        self._file.seek(self._start)
        self._window = self._room[: self._file.readinto(self._room[: max(size, ahead)])]
        if len(self._window) < size:
            self._cut_short()

    def _check_within(self, end: int) -> None:
        if end > self.file_size:
            self._cut_short()
        if end > _LONGEST_HEADER:
            self.damaged(f"its header is longer than {_LONGEST_HEADER:,} bytes")

    def _cut_short(self) -> NoReturn:
        raise cut_short(self._path, self.file_size, "its header reaches beyond")


def cut_short(path: Path, size: int, what: str) -> ModelFileError:
    """Return the error for a file that ends too early."""
    return ModelFileError(
        f"{path.name} is cut short: the file has {size:,} bytes, {what}.",
        hint="The download is incomplete. Fetch it again, and compare its size with the publisher's.",
    )
