"""Standard streams: opened if closed, able to take any text, and detached if they can't be written."""

import codecs
import errno
import io
import os
import sys
from contextlib import suppress
from pathlib import Path

from app.shell.visible_output import made_visible

_HANDLER = "localspec"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MODES = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def mend_streams() -> None:
    """Open to nothing what the shell has closed; let stdout and stdin replace what their encodings have not.

    What goes to a terminal from then on, by whatever way Python knows, is made visible.
    """
    for name, mode in _MODES:
        if getattr(sys, name) is None:
            # The lowest free descriptor is the stream's own. Left free, it would go to the next file that is opened,
            # the saved conversations perhaps, and llama.cpp would print into that.
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - open to the end
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
    # stderr has always had such a way: there a sign that can't be written is spelled as \u2192.
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error(_HANDLER, _replaced)
        sys.stdout.reconfigure(errors=_HANDLER)
    if isinstance(sys.stdin, io.TextIOWrapper):
        # A letter that was typed in another encoding ends no chat.
        sys.stdin.reconfigure(errors="replace")
    sys.stdout, sys.stderr = made_visible(sys.stdout), made_visible(sys.stderr)


def let_go() -> None:
    """Turn to nothing what can't be written: the interpreter would try it again at its very end, and leave with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # A stream in memory has no descriptor.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_without_room(error: OSError) -> bool:
    """Return whether an output had no room left; errors of opening a file name it and do not count."""
    return error.filename is None and error.errno in _NO_ROOM


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return what is written for a character: of a name that is no text the very byte, for any other "?"."""
    assert isinstance(error, UnicodeEncodeError), "stdout only encodes"
    character, after = error.object[error.start], error.start + 1
    # Where a letter takes two bytes, one alone can't be written.
    is_byte = "\udc80" <= character <= "\udcff" and len("?".encode(error.encoding)) == 1
    return bytes([ord(character) - 0xDC00]) if is_byte else "?", after
