"""Scanner of GBNF text: marks, blanks, characters and numbers, and the place of a fault.

Owns the notation below a rule's items. The items are `gbnf`'s.
"""

import re

_DIGITS = re.compile(r"[0-9]+")
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_UNREADABLE = re.compile(r"[\0\ud800-\udfff]")
_LINE_END = re.compile(r"\r\n|\r|\n")
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n", **{mark: mark for mark in '\\"[]-'}}
_ESCAPES = r"There are \n, \r, \t, \\, \", \[, \], \-, \xHH, \uHHHH and \UHHHHHHHH."
_SHOWN = 24


class GbnfError(ValueError):
    """A fault of a grammar, with the line and the column where it stands."""

    def __init__(self, message: str, text: str, place: int) -> None:
        line, column = line_and_column(text, place)
        super().__init__(f"Line {line}, column {column}: {message}")


class GbnfText:
    """A grammar's text and the place that the reader has come to."""

    def __init__(self, text: str) -> None:
        """Begin at the start; raises GbnfError for a character that no grammar can hold."""
        self.text, self.place = text, 0
        if (bad := _UNREADABLE.search(text)) is not None:
            what = "a NUL character" if bad[0] == "\0" else "half of a surrogate pair"
            raise self.error(f"{what} can't stand in a grammar.", bad.start())

    def character(self) -> int:
        """Return the code point of a character, written as it is or as an escape."""
        if self.next != "\\":
            self.place += 1
            return ord(self.text[self.place - 1])
        place, kind = self.place, self.text[self.place + 1 : self.place + 2]
        self.place += 2
        if kind in _HEX_DIGITS:
            return self._hexadecimal(place, kind, _HEX_DIGITS[kind])
        if kind not in _ESCAPED:
            raise self.error(f"\\{kind} is no escape. {_ESCAPES}", place)
        return ord(_ESCAPED[kind])

    def _hexadecimal(self, place: int, kind: str, count: int) -> int:
        digits = self.text[self.place : self.place + count]
        if len(digits) < count or not _HEXADECIMAL.issuperset(digits):
            raise self.error(f"\\{kind} takes {count} hexadecimal digits, not {digits!r}.", place)
        self.place += count
        return int(digits, 16)

    def integer(self, what: str, largest: int) -> int:
        """Read a number of at most `largest`; raises GbnfError."""
        place, digits = self.place, self.match(_DIGITS)
        if digits is None:
            raise self.error(f"{what} is expected, not {self.seen()}.")
        if len(digits.lstrip("0")) > len(str(largest)) or int(digits.lstrip("0") or "0") > largest:
            raise self.error(f"{what} may be {largest} at most, not {digits[:_SHOWN]}.", place)
        return int(digits.lstrip("0") or "0")

    @property
    def next(self) -> str:
        """The character here; "" at the end."""
        return self.text[self.place : self.place + 1]

    def take(self, mark: str) -> bool:
        """Skip a mark; return whether it was here."""
        taken = self.next == mark
        self.place += taken
        return taken

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Go past what a pattern finds here and return it."""
        found = pattern.match(self.text, self.place)
        if found is None:
            return None
        self.place = found.end()
        return found[0]

    def skip(self, *, lines: bool = False) -> None:
        """Go past blanks and comments, and past line ends where `lines`."""
        self.match(_SPACE_AND_LINES if lines else _SPACE)

    def need_more(self, opened: int, what: str) -> None:
        """Raise GbnfError at the end of the text for what was opened before."""
        if self.place >= len(self.text):
            raise self.error(f"{what} that begins here has no end.", opened)

    def seen(self) -> str:
        """Return the text here as an error names it."""
        rest = _LINE_END.split(self.text[self.place : self.place + _SHOWN], maxsplit=1)[0]
        return rest or ("the end of the line" if self.next else "the end of the text")

    def error(self, message: str, place: int | None = None) -> GbnfError:
        """Return the error for a place, this one unless another is named."""
        return GbnfError(message, self.text, self.place if place is None else place)


def line_and_column(text: str, place: int) -> tuple[int, int]:
    """Return where an offset stands, both counted from 1."""
    ends = [end.end() for end in _LINE_END.finditer(text, 0, place)]
    return len(ends) + 1, place - (ends[-1] if ends else 0) + 1
