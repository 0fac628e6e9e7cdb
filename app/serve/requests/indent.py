"""How far a completion may go back to the left: the end of the block that it is in."""

import re

_LINE = re.compile(r"\n(?:[ \t\r]*\n)*([ \t]*)([^ \t\r\n])?")
"""The end of a line, the empty lines after it, and the beginning of the next: a form feed or a wide space is one."""


class Margin:
    """Lets text through as long as its lines are indented far enough; the first one is the cursor's own.

    What is not yet decided is held back, and so are empty lines: they belong to what follows them.
    """

    def __init__(self, least: int) -> None:
        """Take the least number of blanks before a line; 0: any line passes."""
        self._least = least
        self._held = ""
        self.is_over = False
        """Whether a line came that was too far to the left; nothing passes any more."""

    def feed(self, text: str) -> str:
        """Add text; return what passes."""
        if self._least == 0 or self.is_over:
            return "" if self.is_over else text
        text, self._held = self._held + text, ""
        start = 0
        while (end := text.find("\n", start)) >= 0:
            line = _LINE.match(text, end)
            if line is None or line[2] is None:
                self._held = text[end:]
                return text[:end]
            if len(line[1]) < self._least:
                self.is_over = True
                return text[:end]
            start = line.end()
        return text

    def finish(self) -> str:
        """Return what is still held back: no more text will come."""
        held, self._held = self._held, ""
        return held
