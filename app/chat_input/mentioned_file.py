"""Content of one mentioned file: the whole text or a range of lines, up to a limit."""

import re
import stat
from dataclasses import dataclass
from pathlib import Path

from app.shell.safe_text import one_line
from app.shell.text_encoding import decoded, without_returns
from models.errors import UsageError

_LARGEST = 64 << 20
"""Bytes of a file of which only some lines are wanted; it is read up to their end."""
_LONGEST_CHARACTER = 4
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The text of a file that is sent, whole or a range of lines."""

    name: str
    """Its path as shown: relative to the working directory if inside it."""
    text: str
    first: int
    """Its first line in the file, from 1."""
    last: int
    whole: bool

    @property
    def characters(self) -> int:
        """Length in characters."""
        return len(self.text)

    @property
    def lines(self) -> int:
        """Number of lines."""
        return self.last - self.first + 1

    @property
    def title(self) -> str:
        """Its path on one line, and which lines it is where it is not all of the file."""
        if self.whole:
            return one_line(self.name)
        lines = f"line {self.first}" if self.first == self.last else f"lines {self.first}-{self.last}"
        return f"{one_line(self.name)}, {lines}"


def mention(path: str) -> str:
    """Return how a path is mentioned in a text."""
    plain = not re.search(r"\s", path) and not path.startswith('"') and path[-1:].isalnum()
    return f"@{path}" if plain else f'@"{path}"'


def read_excerpt(path: Path, name: str, first: int | None, last: int | None, limit: int) -> Excerpt:
    """Return a file, or its lines from `first` to `last` (from 1, both included), of at most `limit` characters.

    Raises UsageError for a folder, and for a file that is unreadable, binary or too long, or has no such lines.
    """
    shown = one_line(name)
    content = _bytes(path, shown, limit * _LONGEST_CHARACTER if first is None else _LARGEST)
    lines = without_returns(decoded(content, shown, strict=True)).split("\n")
    if lines[-1] == "":
        lines.pop()
    whole, end = first is None, len(lines) if last is None else last
    first, last = first or 1, min(end, len(lines))
    if not whole and first > last:
        hint = f"Try {mention(shown)}:1-{min(20, len(lines))}." if lines else "It is empty: leave it out."
        raise UsageError(f"{shown} has no lines {first:,} to {end:,}.", cause=f"It has {len(lines):,}.", hint=hint)
    text = "".join(line + "\n" for line in lines[first - 1 : last])
    if len(text) > limit:
        raise _too_long(shown, f"{len(text):,} characters", limit)
    return Excerpt(name, text, first, last, whole)


def _bytes(path: Path, shown: str, limit: int) -> bytes:
    try:
        # A pipe or a device would be waited for, or never end.
        if stat.S_ISDIR(mode := path.stat().st_mode):
            raise UsageError(f"{shown} is a folder.", hint="Mention the files in it one by one.")
        if not stat.S_ISREG(mode):
            raise UsageError(f"{shown} is not a regular file.", hint="Copy its content into a file first.")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise UsageError(f"{shown} can't be read.", cause=f"{cause}.", hint="Check its permissions.") from error
    if len(content) > limit:
        raise _too_long(shown, f"more than {limit:,} bytes", limit)
    return content


def _too_long(shown: str, size: str, limit: int) -> UsageError:
    return UsageError(
        f"{shown} is too long to send.",
        cause=f"It is {size}. The files of this message can have {limit:,} more characters.",
        hint=f"Mention a part of it: {mention(shown)}:1-200.",
    )
