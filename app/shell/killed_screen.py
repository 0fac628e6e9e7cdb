"""Records of open screens, so that the next start on a terminal explains how to reset it after a killed screen.

A file per terminal names the process whose screen is open there. It is gone with a screen that ends in any other way.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.shell.paths import screens_folder
from app.shell.terminal import Terminal
from models.system.bounded_read import read_json

_NOTE = (
    "localspec was killed on this terminal before it could restore the terminal's modes. If the mouse types "
    "characters, or your typing is not shown, run: reset"
)


def note_screen(descriptor: int) -> Path | None:
    """Write down that a screen opens on the terminal of a descriptor; return the file, None: there is none."""
    with suppress(OSError, ValueError, AttributeError):
        terminal = os.ttyname(descriptor)
        file = _file_of(terminal)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        record = json.dumps({"process": os.getpid(), "terminal": _identity(terminal)})
        file.unlink(missing_ok=True)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as output:
            output.write(record)
        return file
    return None


def forget_screen(file: Path | None) -> None:
    """Note that a screen is closed and its terminal as it was."""
    if file is not None:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def tell_killed_screen() -> None:
    """Tell, once, on a terminal whose screen was killed, how to put it right."""
    # Windows resets its consoles itself, and has no names of terminals.
    if not hasattr(os, "ttyname") or not sys.stderr.isatty():
        return
    with suppress(OSError, ValueError, RuntimeError):
        terminal = os.ttyname(sys.stderr.fileno())
        file = _file_of(terminal)
        record = read_json(file, _LONGEST)
        if _is_running(record):
            return
        file.unlink()
        if record["terminal"] == _identity(terminal):
            Terminal().warn(_NOTE)


_LONGEST = 1000
"""Maximum bytes of a record."""


def _file_of(terminal: str) -> Path:
    return screens_folder() / terminal.strip("/").replace("/", "-")


def _identity(terminal: str) -> list[int]:
    """Return what tells a terminal from a later one of the same name: its number there, and since when it is there."""
    there = Path(terminal).stat()
    return [there.st_ino, there.st_rdev, there.st_ctime_ns]


def _is_running(record: Any) -> bool:
    """Return whether a record's process runs. Raises ValueError for anything but a record."""
    if not isinstance(record, dict) or not isinstance(record.get("process"), int) or "terminal" not in record:
        raise ValueError("not a record of a screen")
    try:
        os.kill(record["process"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
