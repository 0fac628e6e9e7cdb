"""The file of saved conversations: opened, made private, brought to today's shape, and moved aside when damaged.

Several programs may have it open. Opening is done under a lock, so that of two that find it damaged only one moves it,
and of two that find it missing only one makes it.
"""

import os
import sqlite3
from datetime import datetime
from pathlib import Path

from app.history.schema import migrate
from models.system.file_lock import locked

_PATIENCE = 5.0
"""Seconds to wait for another program's write."""
_OPENING_PATIENCE = 10.0
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # Also after a power cut: in WAL mode NORMAL could lose the last message.
    "PRAGMA synchronous = FULL",
    # The log of changes is put into the file at 256 KB, not at 4 MB: on a small disk it would take the room itself.
    "PRAGMA wal_autocheckpoint = 64",
    "PRAGMA foreign_keys = ON",
    # What is removed is overwritten: it was removed for a reason.
    "PRAGMA secure_delete = ON",
)
_BESIDE = ("", "-wal", "-shm")
_DAMAGED = ".damaged-"


def open_database(path: Path) -> tuple[sqlite3.Connection, Path | None]:
    """Return a connection, and where a damaged file was moved to, if there was one.

    Raises OSError, sqlite3.Error, and LocalspecError for a file of a newer localspec.
    """
    make_private_folder(path.parent)
    with locked(_lock(path), _OPENING_PATIENCE):
        try:
            return _connect(path), None
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            moved = _move_aside(path)
            return _connect(path), moved


def move_aside(path: Path, inode: int) -> Path | None:
    """Move a damaged file out of the way, unless it is no longer the one of this inode; return where to."""
    with locked(_lock(path), _OPENING_PATIENCE):
        try:
            return _move_aside(path) if path.stat().st_ino == inode else None
        except FileNotFoundError:
            return None


def is_damage(error: sqlite3.Error) -> bool:
    """Tell whether this says that the file is damaged, and not that it is busy, or the disk full."""
    return _kind(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_full(error: sqlite3.Error) -> bool:
    """Tell whether this says that there is no room left."""
    return _kind(error) == sqlite3.SQLITE_FULL


def damaged_files(path: Path) -> list[Path]:
    """Return what was moved aside in the past, and is still there."""
    found = path.parent.glob(f"{path.name}{_DAMAGED}*")
    return sorted(file for file in found if not file.name.endswith(_BESIDE[1:]))


def make_private_folder(folder: Path) -> None:
    """Make a folder that only its owner can look into; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    # Only where it is needed: it may be a folder that is ours to use and not ours to change.
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def _connect(path: Path) -> sqlite3.Connection:
    _make_private(path)
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    try:
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        migrate(connection)
        # Reads the root of each table: what a crash or a bad copy did to the start of the file shows here.
        connection.execute("SELECT (SELECT max(rowid) FROM conversation), (SELECT max(id) FROM entry)").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """Make the file with its mode, before anything is in it; SQLite gives the same mode to the files beside it."""
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    elif path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _move_aside(path: Path) -> Path:
    moment = datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    target = path.with_name(f"{path.name}{_DAMAGED}{moment}")
    for ending in _BESIDE:
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.rename(target.with_name(target.name + ending))
    return target


def _kind(error: sqlite3.Error) -> int:
    # The low byte is the kind of error, what is above it the occasion.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _lock(path: Path) -> Path:
    return path.with_name(path.name + ".lock")
