"""Bounded reading of files: regular files alone, at most a number of bytes, and JSON of a bounded depth.

Every reader opens without waiting, so a FIFO without a writer or a device holds up no command.
"""

import errno
import json
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

LARGEST_TEXT = 64 << 20
"""Bytes of a text that a flag names; the longest contexts hold a tenth of it."""
LARGEST_RECORD = 1 << 24
"""Bytes of a small file that localspec or another program keeps about models."""
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
"""Beginnings of the paths that a shell gives for `<(command)`."""
_BLOCK = 1 << 16


class UnfitFile(OSError):
    """A file that is there and is not read: its kind, or its size; `strerror` says it in words."""


def open_regular(path: Path, *, piped: bool = False) -> BufferedReader:
    """Open a file to read, without waiting; raises UnfitFile for a folder, pipe, socket or device, and OSError.

    With `piped`, a pipe that a shell has opened is taken as well, as in `<(command)`; the null device is an empty file.
    """
    # A device may act on being opened, so its kind is asked for before, and again of what was opened.
    allowed = piped and str(path).startswith(_DESCRIPTORS)
    _check_kind(path.stat(), allowed=allowed)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    try:
        _check_kind(os.fstat(handle), allowed=allowed)
        if allowed:
            os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, limit: int, *, piped: bool = False) -> bytes:
    """Return all bytes of a file; raises UnfitFile for one that is no regular file or has more than `limit`, OSError.

    `piped` as for `open_regular`.
    """
    with open_regular(path, piped=piped) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise too_large(size, limit)
        return read_stream(file, limit)


def read_stream(stream: BinaryIO, limit: int) -> bytes:
    """Return what a stream gives up to its end; raises UnfitFile where that is more than `limit` bytes, and OSError."""
    pieces, size = [], 0
    while piece := stream.read(_BLOCK):
        size += len(piece)
        if size > limit:
            raise too_large(size, limit, more=True)
        pieces.append(piece)
    return b"".join(pieces)


def too_large(size: int, limit: int, *, more: bool = False) -> UnfitFile:
    """Return the error for more bytes than are read; with `more`, its end was not seen."""
    seen = f"more than {limit:,} bytes" if more else f"{size:,} bytes"
    return UnfitFile(errno.EFBIG, f"It has {seen}; at most {limit:,} are read")


def parse_json(data: bytes | str) -> Any:
    """Return what a JSON text says; raises ValueError for one that is none, or nests too deeply."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("its lists or objects are nested too deeply") from None


def read_json(path: Path, limit: int = LARGEST_RECORD) -> Any:
    """Return what a file of JSON says; raises OSError and ValueError."""
    return parse_json(read_regular(path, limit))


def _check_kind(state: os.stat_result, *, allowed: bool) -> None:
    """Refuse what is no regular file; raises UnfitFile."""
    mode = state.st_mode
    if stat.S_ISREG(mode) or (allowed and stat.S_ISFIFO(mode)) or _is_null(state):
        return
    kind = next((words for test, words in _KINDS if test(mode)), "no regular file")
    raise UnfitFile(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, f"It is {kind}, not a regular file")


def _is_null(state: os.stat_result) -> bool:
    """Tell whether this is the null device, which ends at once."""
    null = Path(os.devnull)
    return stat.S_ISCHR(state.st_mode) and null.exists() and state.st_rdev == null.stat().st_rdev
