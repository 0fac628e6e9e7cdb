"""Bytes of a command's input, up to a limit: files named by flags, and standard input.

What the bytes mean as text is decided elsewhere.
"""

import os
import sys
import threading
from contextlib import suppress
from errno import EFBIG
from io import BufferedReader
from pathlib import Path
from typing import cast

from app.shell.terminal import Terminal
from models.errors import UsageError
from models.system.bounded_read import LARGEST_TEXT, UnfitFile, read_regular, too_large

_PATIENCE = 1.0
"""Seconds without a byte on standard input until that is said; a producer that works takes less for its first."""
_WAITING = "waiting for standard input to end. If no text is meant to come from it, add </dev/null."
_BLOCK = 1 << 16


def read_input(named: str, path: Path, hint: str = "Check the path.", limit: int = LARGEST_TEXT) -> bytes:
    """Return the bytes of a file; raises UsageError for what is no regular file, too large, or can't be read.

    `named` is how the error calls it. What a shell gives for `<(command)` is read, too.
    """
    try:
        return read_regular(path, limit, piped=True)
    except UnfitFile as error:
        raise UsageError(f"{named} can't be read.", cause=f"{error.strerror}.", hint=_way(error)) from error
    except (OSError, ValueError) as error:
        cause = str(getattr(error, "strerror", None) or error)
        raise UsageError(f"{named} can't be read.", cause=cause, hint=hint) from error


def read_pipe(terminal: Terminal, limit: int = LARGEST_TEXT) -> bytes:
    """Return all of standard input; raises UsageError for more than the limit, and for what can't be read.

    It is read to its end, however slow: what feeds it may work for minutes. Where nothing comes for a second, the
    terminal says once what is waited for.
    """
    pieces, size, arrived, ended = [], 0, threading.Event(), threading.Event()
    threading.Thread(target=_watch, args=(terminal, arrived, ended), daemon=True).start()
    try:
        # A parent may have left it so that a read without data ends at once.
        with suppress(OSError, ValueError):
            os.set_blocking(sys.stdin.fileno(), True)
        stream = cast(BufferedReader, sys.stdin.buffer)
        while piece := stream.read1(_BLOCK):
            arrived.set()
            size += len(piece)
            if size > limit:
                raise too_large(size, limit, more=True)
            pieces.append(piece)
    except UnfitFile as error:
        raise UsageError("Standard input is too long.", cause=f"{error.strerror}.", hint=_way(error)) from error
    except OSError as error:
        hint = "Give a file or a pipe, or </dev/null for none."
        raise UsageError("Standard input can't be read.", cause=f"{error.strerror}.", hint=hint) from error
    finally:
        ended.set()
        arrived.set()
    return b"".join(pieces)


def _watch(terminal: Terminal, arrived: threading.Event, ended: threading.Event) -> None:
    """Say once that standard input is waited for, when nothing comes."""
    while arrived.wait(_PATIENCE):
        if ended.is_set():
            return
        arrived.clear()
    terminal.warn(_WAITING)


def _way(error: UnfitFile) -> str:
    """Return what to do instead."""
    if error.errno == EFBIG:
        return "Give less text: no model's context holds that much."
    return "Name a regular file, or give a command's output as <(command)."
