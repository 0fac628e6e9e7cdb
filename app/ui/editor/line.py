"""The line below the text for a text to find or a line to go to."""

import re
from dataclasses import dataclass

from textual import on
from textual.message import Message
from textual.widgets import Input

from app.ui.prompt.one_line import OneLineInput

_LINE = re.compile(r"\s*(\d{1,9})\s*(?:[:,]\s*(\d{1,9})\s*)?")


class WantedLine(OneLineInput):
    """An input that is there only while it is needed."""

    DEFAULT_CSS = """
    WantedLine { display: none; height: 1; border: none; padding: 0 1; background: $panel; }
    WantedLine:focus { border: none; }
    """

    @dataclass
    class Find(Message):
        """A text is to be found."""

        text: str

    @dataclass
    class Go(Message):
        """A place is to be gone to; both from 0."""

        line: int
        column: int

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        """Begin hidden."""
        super().__init__(id=id)
        self._finds = True
        self._found = ""

    def open(self, *, finds: bool) -> None:
        """Open the line for a text to find, with the last one as default, or for a place."""
        self._finds = finds
        self.placeholder = "Find" if finds else "Line, or line:column"
        self.value = self._found if finds else ""
        self.display = True
        self.focus()
        self.select_all()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._finds:
            self._found = event.value
            self.post_message(self.Find(event.value))
        elif found := _LINE.fullmatch(event.value):
            self.post_message(self.Go(max(0, int(found[1]) - 1), max(0, int(found[2] or 1) - 1)))


def find_next(text: str, wanted: str, start: int) -> int | None:
    """Return where a text is next, from an index on and then from the beginning; None where it is not.

    Small letters fit capitals too; a wanted text with a capital is found as it is.
    """
    if not wanted:
        return None
    if wanted == wanted.lower():
        if text.isascii():
            return _from(text.lower(), wanted, start)
        # Another case can be of another length, and with it every index would be another.
        pattern = re.compile(re.escape(wanted), re.IGNORECASE)
        found = pattern.search(text, start) or pattern.search(text)
        return found.start() if found else None
    return _from(text, wanted, start)


def _from(text: str, wanted: str, start: int) -> int | None:
    place = text.find(wanted, start)
    place = text.find(wanted) if place < 0 else place
    return None if place < 0 else place
