"""Atomic writes: the old content stays until the new content is complete."""

import errno
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from models.errors import LocalspecError

_MOST_OF_A_NAME = 120
"""Bytes of a file's name in the name of another file: most systems take 255, encrypted folders 143."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, through links, with the permissions it had; raises LocalspecError, and then it is as it was."""
    try:
        target = path.resolve()
        if _must_stay(target) or not _replace(target, data):
            _overwrite(target, data)
    except OSError as error:
        cause = f"{error.strerror or type(error).__name__}."
        raise LocalspecError(f"{path} can't be saved.", cause=cause, hint="The text is still in the editor.") from error


def write_aside(folder: Path, name: str, data: bytes) -> Path | None:
    """Write a private file under a name that is free, such as "notes.txt~2"; None: it can't be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in range(1, 1000):
            path = folder / f"{_cut(name)}~{number}"
            with suppress(FileExistsError), os.fdopen(_new(path, 0o600), "wb") as file:
                file.write(data)
                return path
    except OSError:
        pass
    return None


def _must_stay(target: Path) -> bool:
    """Return whether a file must be overwritten in place: it has several names, or belongs to another user."""
    if not target.exists():
        return False
    found = target.stat()
    is_mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return found.st_nlink > 1 or not is_mine or not os.access(target.parent, os.W_OK)


def _overwrite(target: Path, data: bytes) -> None:
    before = target.read_bytes()
    try:
        target.write_bytes(data)
    except OSError:
        # A full disk took a part of it; what was there had room.
        target.write_bytes(before)
        raise


def _replace(target: Path, data: bytes) -> bool:
    """Put a new file in the place of what is there.

    False, and nothing changed, where it can't be of the same group, or what is there can't be replaced.
    """
    temporary = target.with_name(f".{_cut(target.name)}.{secrets.token_hex(4)}")
    # The umask decides on a new file; of an old one all is taken over before it has content.
    descriptor = _new(temporary, 0o600 if target.exists() else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if target.exists() and not _take_over(target, temporary):
                return False
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.utime(temporary)
        return _take_place(target, temporary)
    finally:
        # It is there no more where it took the place.
        with suppress(OSError):
            temporary.unlink()


def _cut(name: str) -> str:
    """Return a name, or as much of its beginning as leaves room for more behind it; systems count bytes."""
    # Of a character cut through nothing stays: some systems refuse a name that is no text.
    return os.fsencode(name)[:_MOST_OF_A_NAME].decode(errors="ignore")


def _take_over(target: Path, temporary: Path) -> bool:
    """Copy group and permissions to a new file; return False if this user may not set the group."""
    group = target.stat().st_gid
    if temporary.stat().st_gid != group:
        try:
            os.chown(temporary, -1, group)
        except OSError:
            return False
    # Last: a change of the group takes permissions away.
    shutil.copystat(target, temporary)
    return True


def _take_place(target: Path, temporary: Path) -> bool:
    """Rename a file over another; return False if that one is a mount, such as a file in a container."""
    try:
        temporary.replace(target)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def _new(path: Path, mode: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
