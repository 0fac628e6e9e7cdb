"""Output to a terminal: control characters in text become visible signs; only `obey` sends control sequences."""

import codecs
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from app.shell.safe_text import shown

_RESET = "\x1b[0m"


class VisibleOutput(io.BufferedIOBase):
    """Passes text on to a terminal, with a sign for each character that would be obeyed."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        """Take the terminal's own stream, in whose encoding the bytes are."""
        super().__init__()
        # A stream that is collected closes the bytes behind it.
        self._stream = stream
        self._terminal = stream.buffer
        self._encoding = stream.encoding
        self._decoder = codecs.getincrementaldecoder(stream.encoding)("replace")

    def write(self, data: "bytes | bytearray | memoryview", /) -> int:  # type: ignore[override]
        """Write text; a character that is cut is written with its rest, bytes that are no text are a sign."""
        text = shown(self._decoder.decode(bytes(data)))
        self._terminal.write(text.replace("\n", _LINE_END).encode(self._encoding, "replace"))
        return len(data)

    def obey(self, sequence: str) -> None:
        """Write a sequence of the program's own, as it is."""
        self._terminal.write(sequence.encode("ascii"))

    def flush(self) -> None:
        """Send what was written."""
        self._terminal.flush()

    def close(self) -> None:
        """Send what was written; the terminal's own stream stays open."""
        if not self.closed and not self._terminal.closed:
            self._terminal.flush()
        super().close()

    def writable(self) -> bool:
        """Tell that this is an output."""
        return True

    def isatty(self) -> bool:
        """Return whether it still leads to a terminal."""
        return self._terminal.isatty()

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self._terminal.fileno()

    @property
    def name(self) -> object:
        """The name of the terminal's own stream."""
        return getattr(self._terminal, "name", "")


_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")
_LINE_END = "\r\n" if sys.platform == "win32" else "\n"


def made_visible(stream: TextIO) -> TextIO:
    """Return a stream in whose place text can be written that may hold anything; only a terminal's needs one."""
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream.buffer, VisibleOutput) or not stream.isatty():
        return stream
    stream.flush()
    encoding, errors = stream.encoding, stream.errors or "strict"
    output = VisibleOutput(stream)
    return io.TextIOWrapper(output, encoding, errors, line_buffering=True)


def obey(stream: TextIO, sequence: str) -> None:
    """Write a sequence that a terminal is to obey, such as a colour; text never goes this way."""
    stream.flush()
    output = getattr(stream, "buffer", None)
    if isinstance(output, VisibleOutput):
        output.obey(sequence)
    else:
        stream.write(sequence)


def write_drawn(stream: TextIO, page: str) -> None:
    """Write a drawn page: a terminal obeys its colours and weights, and shows any other control sequence as signs."""
    for place, part in enumerate(_STYLE.split(page)):
        # Every second part is a style.
        if place % 2:
            obey(stream, part)
        else:
            stream.write(part)
    stream.flush()


@contextmanager
def styled(stream: TextIO, sequence: str) -> Iterator[None]:
    """Write in a style for a while; "" is none."""
    if not sequence:
        yield
        return
    obey(stream, sequence)
    try:
        yield
    finally:
        obey(stream, _RESET)
