"""The left limit of a completion: text ends before a line with less indentation than the block has."""

import re

_LINE = re.compile(r"\n(?:[ \t\r]*\n)*([ \t]*)([^ \t\r\n])?")
"""The end of a line, the empty lines after it, and the start of the next one, such as a form feed or a wide space."""


class Margin:
    """Passes text on while its lines are indented enough; the first line continues the cursor's line.

    Undecided text is held back, and so are empty lines: they belong to the line after them.
    """

    def __init__(self, least: int) -> None:
        """Take the minimum number of blanks before a line; 0: all lines pass."""
        self._least = least
        self._held = ""
        self.is_over = False
        """Whether a line had too little indentation; no more text passes."""

    def feed(self, text: str) -> str:
        """Add text; return the part that passes."""
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
        """Return the text that is still held back; no more text follows."""
        held, self._held = self._held, ""
        return held
