"""A cursor in a text, and how much around it is shown to the model.

A line ends with a newline, with or without a carriage return before it, and with nothing else: editors count so.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from models.errors import UsageError

# Python refuses to read a number of thousands of digits.
NAMED = re.compile(r"(.+?):(\d{1,9})(?::(\d{1,9}))?:?")
"""FILE:LINE:COL, both from 1, as compilers print it; the column may be left out."""
_AROUND = 1024
"""Lines on each side of a cursor that are enough for all that is looked at: see `Windows`, and `asking`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cursor in a text; raises UsageError where the text has no such line or column."""

    path: str
    """Name that is shown to the model, and key of the document; "" for none."""
    text: str
    """The whole document, or lines of it."""
    line: int
    """From 0, in the document."""
    column: int
    """From 0, in characters (code points) of that line."""
    above: int = 0
    """Lines of the document before the text."""
    line_end: str = ""
    """What ends the document's lines where the text has another end in its place; "" where it has its own."""
    _start: int = field(init=False, repr=False, compare=False)
    _end: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        last = self.above + self.text.count("\n")
        if not self.above <= self.line <= last:
            raise UsageError(
                f"Line {self.line + 1} is not in {self.path or 'the text'}.",
                cause=f"It has {last + 1} line{'s' * (last > 0)}.",
                hint="Lines count from 1, as editors show them.",
            )
        start, end = self._bounds()
        # Looked for once: each key asks for them many times.
        object.__setattr__(self, "_start", start)
        object.__setattr__(self, "_end", end)
        if not 0 <= self.column <= end - start:
            raise UsageError(
                f"Column {self.column + 1} is not in line {self.line + 1} of {self.path or 'the text'}.",
                cause=f"The line's end is column {end - start + 1}.",
                hint="Columns count characters from 1; a tab is one.",
            )

    @classmethod
    def between(cls, path: str, prefix: str, suffix: str, line_end: str = "") -> "Place":
        """Return the place between two texts; raises UsageError for one inside a line end."""
        return cls(path, prefix + suffix, prefix.count("\n"), len(prefix) - (prefix.rfind("\n") + 1), line_end=line_end)

    @classmethod
    def among(cls, path: str, lines: Sequence[str], line: int, column: int) -> "Place":
        """Return a place in a document of any length, given without line ends; it keeps what is looked at of it.

        All that is asked about it, with the windows as they are by default, is the same as with the whole document.
        """
        # The text begins at the same line for many keys: what was asked before is compared with it.
        above = max(0, line // _AROUND - 1) * _AROUND
        return cls(path, "\n".join(lines[above : line + _AROUND]), line, column, above)

    @property
    def noted(self) -> tuple[str, str, int, int]:
        """What a completer takes note of when the line is visited, edited or saved."""
        return self.path, self.text, self.line, self.above

    @property
    def offset(self) -> int:
        """Characters of the text before the cursor."""
        return self._start + self.column

    @property
    def prefix(self) -> str:
        """The text up to the cursor."""
        return self.text[: self.offset]

    @property
    def suffix(self) -> str:
        """The text from the cursor on."""
        return self.text[self.offset :]

    @property
    def behind(self) -> str:
        """The beginning of the cursor's line."""
        return self.text[self._start : self.offset]

    @property
    def ahead(self) -> str:
        """The rest of the cursor's line, without its end."""
        return self.text[self.offset : self._end]

    @property
    def newline(self) -> str:
        """What ends the cursor's line or, in the last line, the one before it: a document may have both."""
        if self.line_end:
            return self.line_end
        own = self.text[self._end : self._end + 2]
        before = own or self.text[max(0, self._start - 2) : self._start]
        return "\r\n" if before == "\r\n" else "\n"

    def after(self, inserted: str) -> "Place":
        """Return the place behind a text that is inserted at the cursor."""
        after = Place.between(self.path, self.prefix + inserted, self.suffix)
        return replace(after, line=self.above + after.line, above=self.above, line_end=self.line_end)

    def _bounds(self) -> tuple[int, int]:
        """Return where the cursor's line begins and ends."""
        start = 0
        for _ in range(self.line - self.above):
            start = self.text.index("\n", start) + 1
        end = self.text.find("\n", start)
        if end < 0:
            return start, len(self.text)
        return start, end - (end > start and self.text[end - 1] == "\r")


@dataclass(frozen=True, slots=True)
class Windows:
    """How much of a document is shown."""

    prefix: int = 256
    """Most lines before the cursor's."""
    suffix: int = 64
    """Most lines after the cursor's."""
    step: int = 128
    """The prefix begins at a multiple of so many lines, at most half of it: each move has all of it read anew.

    Half of it costs the least: one line is then read again for each line that is written.
    """
    width: int = 96
    """Most characters a line, on average: a file in one line must not be read as a whole at each key."""


@dataclass(frozen=True, slots=True)
class Window:
    """What is shown of a document, with every line ended by a bare newline."""

    prefix: str
    """Lines before the cursor's."""
    behind: str
    """The beginning of the cursor's line."""
    suffix: str
    """From the cursor on."""
    first: int
    """The first line of it."""
    last: int
    """The last line of it."""


def window(place: Place, windows: Windows) -> Window:
    """Return what is shown around a cursor."""
    step = max(1, min(windows.step, windows.prefix // 2))
    first = -(-max(0, place.line - windows.prefix) // step) * step
    before = place.prefix.split("\n")[max(0, first - place.above) :]
    after = place.suffix.split("\n")[: windows.suffix + 1]
    head, behind = "".join(f"{_bare(line)}\n" for line in before[:-1]), before[-1]
    tail = "\n".join(map(_bare, after))
    widest = windows.width * max(1, windows.prefix)
    last = place.line + len(after) - 1
    cut = _cut(len(head) + len(behind), widest)
    behind = behind[max(0, cut - len(head)) :]
    return Window(head[cut:], behind, tail[: windows.width * max(1, windows.suffix)], first, last)


def _cut(length: int, most: int) -> int:
    """Return how many characters a prefix that is too long loses: many at once, so that the next key moves nothing."""
    step = max(1, most // 2)
    return -(-max(0, length - most) // step) * step


def _bare(line: str) -> str:
    return line.removesuffix("\r")
