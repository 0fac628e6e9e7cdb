"""Output of line programs: answers on stdout; notes, errors and one progress line on stderr."""

import codecs
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from app.shell.columns import beginning
from app.shell.visible_output import obey, styled, write_drawn
from models.errors import LocalspecError

_BAR = 24
"""Columns of a bar."""
_COLUMNS = 80
"""Of a terminal that does not say how wide it is."""
_DIM, _RED = "\x1b[2m", "\x1b[31m"
_CLEARED = "\r\x1b[K"
"""Empties the line that the cursor is in."""


class Terminal:
    """Writes answers to stdout, and everything else to stderr."""

    def __init__(self, *, quiet: bool = False) -> None:
        """With `quiet`, neither progress nor statistics nor notes."""
        self.quiet = quiet
        self._styled = sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._moves = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._progress = ""

    def say(self, text: str) -> None:
        """Write a piece of an answer, at once."""
        self.clear_progress()
        sys.stdout.write(text)
        sys.stdout.flush()

    def think(self, text: str) -> None:
        """Write a piece of a model's thoughts, at once: beside the answer, so that a pipe has the answer alone."""
        if self.quiet or not text:
            return
        self.clear_progress()
        _note(text, self._style(_DIM), ends=False)

    def say_record(self, record: Mapping[str, Any], default: Callable[[Any], Any] | None = None) -> None:
        """Write a line of JSON; `default` is asked, as by `json`, for what has no form there.

        It is in ASCII where stdout is not UTF-8, in which JSON is read, and where a name in it is no text.
        """
        line = json.dumps(record, ensure_ascii=False, default=default)
        self.say((line if _is_read(line) else json.dumps(record, default=default)) + "\n")

    def tell(self, text: str) -> None:
        """Write a dim line that is not part of any answer."""
        self.clear_progress()
        if not self.quiet:
            _note(text, self._style(_DIM))

    def show(self, text: str) -> None:
        """Write what the user asked to see."""
        self.clear_progress()
        _note(text)

    def show_drawn(self, page: str) -> None:
        """Write a page that was drawn for the terminal, with its styles."""
        self.clear_progress()
        with suppress(OSError):
            write_drawn(sys.stderr, page)

    def read(self, mark: str) -> str:
        """Return a line that is typed after a mark; raises EOFError."""
        if sys.stdout.isatty():
            # Only there can it be edited.
            return input(mark)
        # `input` would write the mark to stdout, among the answers of a file, and out of sight.
        _note(mark, ends=False)
        return input()

    def warn(self, text: str) -> None:
        """Write a note that matters, unless quiet."""
        self.tell(f"localspec: note: {text}")

    def fail(self, error: LocalspecError) -> None:
        """Write what failed, the value seen and what to do next."""
        self.clear_progress()
        _note(f"localspec: {error.title}", self._style(_RED))
        for part in (error.cause, error.hint):
            if part:
                _note("  " + part.replace("\n", "\n  "))

    def progress(self, text: str) -> None:
        """Replace the progress line; only where a line can be replaced."""
        if self.quiet or not self._moves:
            return
        # What goes on below its end would stay there for good.
        if (text := beginning(text, _width() - 1)) == self._progress:
            return
        self._progress = text
        obey(sys.stderr, _CLEARED)
        sys.stderr.write(text)
        sys.stderr.flush()

    def loading(self, name: str, share: float | None) -> None:
        """Show how much of a model was read, 0 to 1; None: the name says what is done."""
        self.progress(name if share is None else f"loading {name} {share:4.0%}")

    def clear_progress(self) -> None:
        """Remove the progress line."""
        if self._progress:
            self._progress = ""
            obey(sys.stderr, _CLEARED)
            sys.stderr.flush()

    def _style(self, sequence: str) -> str:
        return sequence if self._styled else ""


def bar(done: float, of: float) -> str:
    """Return a bar for the progress line: full where `done` is all, or more than all."""
    filled = min(_BAR, int(_BAR * done / of))
    return "#" * filled + "." * (_BAR - filled)


def time_left(seconds: float) -> str:
    """Return about how long it will take."""
    return f"{seconds / 60:.0f} min left" if seconds > 90 else f"{seconds:.0f} s left"


def _width() -> int:
    """Return how wide the terminal is now that the progress line is on: stdout may be another, or a file."""
    with suppress(OSError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    return _COLUMNS


def _note(line: str, style: str = "", *, ends: bool = True) -> None:
    # A full disk behind stderr must not end an answer that can be written.
    with suppress(OSError):
        with styled(sys.stderr, style):
            sys.stderr.write(line)
        sys.stderr.write("\n" * ends)
        sys.stderr.flush()


def _is_read(line: str) -> bool:
    """Return whether stdout would write a line in UTF-8, as readers of JSON expect."""
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
