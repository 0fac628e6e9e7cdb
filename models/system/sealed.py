"""Sealed files, which localspec writes once and loads later: a checksum beside each is checked before use.

A file is trusted when it is a plain file of this user, or of the system, that no other user can write, and its bytes
have the checksum. Anything else under its name is damaged, or was put there by another program.
"""

import hashlib
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from models.system.whole_file import write_whole

SEAL = ".sha256"
"""Ending of the file beside a sealed one."""
_SYSTEM = 0
"""User id of the superuser, the owner of this system's own files."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_LONGEST_SEAL = 200
_CHUNK = 1 << 20


class UntrustedError(Exception):
    """A file that must not be used, and why, in a clause."""


def open_trusted(path: Path) -> int:
    """Open a file for reading if it is plain, and only this user or the system can write it; return its descriptor.

    Raises UntrustedError, FileNotFoundError for none, and OSError.
    """
    # Not blocking: a pipe of that name would otherwise be waited for.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if path.is_symlink():
        raise UntrustedError("it is a link")
    if path.is_dir():
        raise UntrustedError("it is a folder")
    handle = os.open(path, flags)
    try:
        if fault := _fault(os.fstat(handle)):
            raise UntrustedError(fault)
    except BaseException:
        os.close(handle)
        raise
    return handle


def is_trusted(path: Path) -> bool:
    """Return whether `open_trusted` would open a file."""
    try:
        os.close(open_trusted(path))
    except (UntrustedError, OSError):
        return False
    return True


def _fault(state: os.stat_result) -> str:
    """Return why a file can't be trusted, from what the system says of it; "" where it can."""
    if not stat.S_ISREG(state.st_mode):
        return "it is no plain file"
    if hasattr(os, "geteuid"):
        if state.st_uid not in (os.geteuid(), _SYSTEM):
            return f"it belongs to another user ({state.st_uid})"
        if state.st_mode & _OTHERS_WRITE:
            return f"others can write it (mode {stat.S_IMODE(state.st_mode):o})"
    return ""


def read_trusted(path: Path, most: int) -> bytes:
    """Return the bytes of a small file that can be trusted; raises as `open_trusted`, also for more than `most`."""
    with os.fdopen(open_trusted(path), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UntrustedError(f"it has more than {most:,} bytes")
    return data


def open_sealed(path: Path) -> int:
    """Open a file whose bytes are those that were sealed; return its descriptor.

    What is read through it later is what was checked. Raises as `open_trusted`.
    """
    handle = open_trusted(path)
    try:
        try:
            seal = read_trusted(_seal_of(path), _LONGEST_SEAL)
        except FileNotFoundError:
            raise UntrustedError("it has no checksum") from None
        if seal.split()[:1] != [_digest(handle).encode()]:
            raise UntrustedError("its checksum is another one")
        os.lseek(handle, 0, os.SEEK_SET)
    except BaseException:
        os.close(handle)
        raise
    return handle


def is_sealed(path: Path) -> bool:
    """Tell whether a file may be used, quickly: its bytes are gone through only if it was touched since it was sealed.

    For large files in which a wrong number does no harm.
    """
    try:
        handle = open_trusted(path)
        try:
            state = os.fstat(handle)
        finally:
            os.close(handle)
        if read_trusted(_seal_of(path), _LONGEST_SEAL).split()[1:] == _stamp(state).encode().split():
            return True
        os.close(open_sealed(path))
    except (UntrustedError, OSError):
        return False
    return True


def _stamp(state: os.stat_result) -> str:
    return f"{state.st_size} {state.st_mtime_ns}"


def seal(made: Path, path: Path) -> None:
    """Put a finished file in its place, whole and on the disk, with its checksum; raises OSError."""
    with made.open("rb") as file:
        os.fsync(file.fileno())
        digest = _digest(file.fileno())
        stamp = _stamp(os.fstat(file.fileno()))
    made.chmod(0o600)
    # The checksum first: a process that is killed in between leaves a checksum of nothing, and no unchecked file.
    write_whole(_seal_of(path), f"{digest} {stamp}\n")
    made.replace(path)
    _sync_folder(path.parent)


def remove_sealed(path: Path) -> None:
    """Remove a file, or whatever has its name, and its checksum; raises OSError."""
    for each in (path, _seal_of(path)):
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink(missing_ok=True)


def private_folder(folder: Path) -> None:
    """Make a folder that this user alone can enter, whatever the umask; raises OSError for a folder of another user."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    state = folder.stat()
    if hasattr(os, "geteuid") and state.st_uid != os.geteuid():
        raise PermissionError(1, "It belongs to another user", str(folder))
    if stat.S_IMODE(state.st_mode) != 0o700:
        folder.chmod(0o700)


def _seal_of(path: Path) -> Path:
    return path.with_name(path.name + SEAL)


def _digest(handle: int) -> str:
    digest = hashlib.sha256()
    os.lseek(handle, 0, os.SEEK_SET)
    while chunk := os.read(handle, _CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Have the new name on the disk too, where the system can do that for a folder."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
