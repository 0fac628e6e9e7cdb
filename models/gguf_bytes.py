"""A file's bytes, front to back, through a window: nothing is read that was not checked to be there and to be little.

Whatever a damaged or hostile file claims, the memory used stays within a few windows, and the time within a few seconds
at worst: see the limits below.
"""

from pathlib import Path
from struct import Struct
from typing import BinaryIO, NoReturn

from models.errors import ModelFileError

LONGEST_ARRAY = 1 << 20
"""Elements of one array; the largest vocabularies have a quarter of a million tokens, and twice as many merges."""
_MOST_ELEMENTS = 1 << 22
"""Elements of all arrays of a header together."""
_LONGEST_HEADER = 1 << 28
"""Bytes before the weights."""
_LONGEST_STRING = 1 << 24
_MOST_TEXT = 1 << 25
"""Bytes of all strings that are kept in memory."""
_WINDOW = 1 << 18
_LENGTH = Struct("<Q")


class HeaderBytes:
    """Reads the header of an open file; every method raises ModelFileError rather than read beyond a limit."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file_size = file.seek(0, 2)
        self._file = file
        self._path = path
        self._start = 0
        self._window = b""
        self._at = 0
        self._elements = self._text = 0

    @property
    def position(self) -> int:
        """Place in the file of the byte that is read next."""
        return self._start + self._at

    def number(self, form: Struct) -> int | float | bool:
        """Read one number of this form."""
        self._fill(form.size)
        (value,) = form.unpack_from(self._window, self._at)
        self._at += form.size
        return value  # type: ignore[no-any-return]

    def count(self, form: Struct, most: int, what: str) -> int:
        """Read a number of things of which a header may have so many."""
        value = int(self.number(form))
        if value > most:
            self.damaged(f"it claims {value:,} {what}; at most {most:,} are believed")
        return value

    def text(self, most: int = _LONGEST_STRING) -> str:
        """Read a string; bytes that are no UTF-8 become replacement characters."""
        size = self.count(_LENGTH, most, "bytes in one string")
        self._text += size
        if self._text > _MOST_TEXT:
            self.damaged(f"its strings take more than {_MOST_TEXT:,} bytes")
        self._fill(size)
        data = self._window[self._at : self._at + size]
        self._at += size
        return data.decode("utf-8", errors="replace")

    def skip(self, size: int) -> None:
        """Go on so many bytes further."""
        self._check_within(self.position + size)
        self._at += size

    def claim(self, elements: int) -> None:
        """Count the elements of an array against what a header may have."""
        self._elements += elements
        if self._elements > _MOST_ELEMENTS:
            self.damaged(f"its arrays have more than {_MOST_ELEMENTS:,} elements")

    def skip_strings(self, count: int) -> None:
        """Go past so many strings, reading their lengths alone: a vocabulary has hundreds of thousands."""
        while count:
            self._fill(_LENGTH.size)
            window, at, last = self._window, self._at, len(self._window) - _LENGTH.size
            unpack = _LENGTH.unpack_from
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

    def damaged(self, cause: str) -> NoReturn:
        """Raise the error for a file that can't be what it says it is."""
        raise ModelFileError(
            f"{self._path.name} is damaged.",
            cause=f"{cause[0].upper()}{cause[1:]} (at byte {self.position:,}).",
            hint="Fetch it again, and compare its size with the publisher's.",
        )

    def _fill(self, size: int) -> None:
        """Have the next `size` bytes in the window."""
        if self._at + size <= len(self._window):
            return
        start = self.position
        self._check_within(start + size)
        self._file.seek(start)
        self._window = self._file.read(max(size, _WINDOW))
        self._start, self._at = start, 0
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
        hint="The download was not finished. Fetch it again, and compare its size with the publisher's.",
    )
