"""A cursor position in a text, and the window around it that the model reads.

A line ends with a newline, with or without a carriage return before it, and with no other sign: editors count so.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from models.errors import UsageError

# Python refuses numbers of thousands of digits.
NAMED = re.compile(r"(.+?):(\d{1,9})(?::(\d{1,9}))?:?")
"""FILE:LINE:COL, both from 1, as compilers print it; the column is optional."""
_AROUND = 1024
"""Lines on each side of a cursor that suffice for every use: see `Windows`, and `asking`."""


@dataclass(frozen=True, slots=True)
class CursorPosition:
    """A cursor position in a text; raises UsageError for a line or column that the text lacks."""

    path: str
    """Name shown to the model, and key of the document; "" for none."""
    text: str
    """The whole document, or a part of its lines."""
    line: int
    """Line in the document, from 0."""
    column: int
    """Column in characters (code points), from 0."""
    above: int = 0
    """Number of lines of the document before the text."""
    line_end: str = ""
    """Line end of the document, if the text has a different one in its place; "" otherwise."""
    _start: int = field(init=False, repr=False, compare=False)
    _end: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        last = self.above + self.text.count("\n")
        if not self.above <= self.line <= last:
            raise UsageError(
                f"{self.path or 'The text'} has no line {self.line + 1}.",
                cause=f"It has {last + 1} line{'s' * (last > 0)}.",
                hint="Lines count from 1.",
            )
        start, end = self._bounds()
        # Computed once: each key needs them many times.
        object.__setattr__(self, "_start", start)
        object.__setattr__(self, "_end", end)
        if not 0 <= self.column <= end - start:
            raise UsageError(
                f"Line {self.line + 1} of {self.path or 'the text'} has no column {self.column + 1}.",
                cause=f"The line ends at column {end - start + 1}.",
                hint="Columns count characters from 1. A tab is one character.",
            )

    @classmethod
    def between(cls, path: str, prefix: str, suffix: str, line_end: str = "") -> "CursorPosition":
        """Return the position between two texts; raises UsageError for one inside a line end."""
        return cls(path, prefix + suffix, prefix.count("\n"), len(prefix) - (prefix.rfind("\n") + 1), line_end=line_end)

    @classmethod
    def among(cls, path: str, lines: Sequence[str], line: int, column: int) -> "CursorPosition":
        """Return a position in a document of any length, given as lines without ends; keeps only the lines around it.

        With the default windows, every result equals that for the whole document.
        """
        # The text begins at one line for many keys: earlier requests are compared with it.
        above = max(0, line // _AROUND - 1) * _AROUND
        return cls(path, "\n".join(lines[above : line + _AROUND]), line, column, above)

    @property
    def noted(self) -> tuple[str, str, int, int]:
        """Lines that a completer notes when the line is visited, edited or saved."""
        return self.path, self.text, self.line, self.above

    @property
    def offset(self) -> int:
        """Characters of the text before the cursor."""
        return self._start + self.column

    @property
    def prefix(self) -> str:
        """The text before the cursor."""
        return self.text[: self.offset]

    @property
    def suffix(self) -> str:
        """The text from the cursor on."""
        return self.text[self.offset :]

    @property
    def behind(self) -> str:
        """The cursor's line before the cursor."""
        return self.text[self._start : self.offset]

    @property
    def ahead(self) -> str:
        """The cursor's line after the cursor, without its end."""
        return self.text[self.offset : self._end]

    @property
    def newline(self) -> str:
        """Line end of the cursor's line or, in the last line, of the previous one: a document may have both kinds."""
        if self.line_end:
            return self.line_end
        own = self.text[self._end : self._end + 2]
        before = own or self.text[max(0, self._start - 2) : self._start]
        return "\r\n" if before == "\r\n" else "\n"

    def after(self, inserted: str) -> "CursorPosition":
        """Return the position after a text that is inserted at the cursor."""
        after = CursorPosition.between(self.path, self.prefix + inserted, self.suffix)
        return replace(after, line=self.above + after.line, above=self.above, line_end=self.line_end)

    def _bounds(self) -> tuple[int, int]:
        """Return start and end of the cursor's line."""
        start = 0
        for _ in range(self.line - self.above):
            start = self.text.index("\n", start) + 1
        end = self.text.find("\n", start)
        if end < 0:
            return start, len(self.text)
        return start, end - (end > start and self.text[end - 1] == "\r")


@dataclass(frozen=True, slots=True)
class Windows:
    """Size of the shown part of a document."""

    prefix: int = 256
    """Maximum lines before the cursor's."""
    suffix: int = 64
    """Maximum lines after the cursor's."""
    step: int = 128
    """The prefix begins at a multiple of this many lines, at most half of it: each move re-reads the whole prefix.

    Half costs least: one line is then read again for each written line.
    """
    width: int = 96
    """Maximum characters per line on average: a file in one line must not be read whole at each key."""


@dataclass(frozen=True, slots=True)
class Window:
    """The shown part of a document; every line ends with a bare newline."""

    prefix: str
    """Lines before the cursor's line."""
    behind: str
    """The cursor's line before the cursor."""
    suffix: str
    """The text from the cursor on."""
    first: int
    """Its first line in the document."""
    last: int
    """Its last line in the document."""


def window(place: CursorPosition, windows: Windows) -> Window:
    """Return the shown part around a cursor."""
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
    """Return how many characters to cut from an overlong prefix: many at once, so that the next key moves nothing."""
    step = max(1, most // 2)
    return -(-max(0, length - most) // step) * step


def _bare(line: str) -> str:
    return line.removesuffix("\r")
