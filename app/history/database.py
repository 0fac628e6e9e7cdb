"""The database file of saved conversations: opening, permissions, migration, and replacement when damaged.

Several programs may have it open. Opening takes a lock, so that only one of two programs moves a damaged file, or
creates a missing one.
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
    # With NORMAL, WAL mode could lose the last message after a power cut.
    "PRAGMA synchronous = FULL",
    # Checkpoint at 256 KB, not at 4 MB: on a small disk the log itself would fill it.
    "PRAGMA wal_autocheckpoint = 64",
    "PRAGMA foreign_keys = ON",
    # Overwrite removed rows: the user removed them for good.
    "PRAGMA secure_delete = ON",
)
_BESIDE = ("", "-wal", "-shm")
_DAMAGED = ".damaged-"


def open_database(path: Path) -> tuple[sqlite3.Connection, Path | None]:
    """Return a connection, and the new path of a damaged file, if there was one.

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
    """Move a damaged file away, unless it is no longer the file of this inode; return its new path."""
    with locked(_lock(path), _OPENING_PATIENCE):
        try:
            return _move_aside(path) if path.stat().st_ino == inode else None
        except FileNotFoundError:
            return None


def is_damage(error: sqlite3.Error) -> bool:
    """Tell whether an error means a damaged file, as opposed to a busy one or a full disk."""
    return _kind(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_full(error: sqlite3.Error) -> bool:
    """Tell whether an error means a full disk."""
    return _kind(error) == sqlite3.SQLITE_FULL


def damaged_files(path: Path) -> list[Path]:
    """Return damaged files that were moved away and still exist."""
    found = path.parent.glob(f"{path.name}{_DAMAGED}*")
    return sorted(file for file in found if not file.name.endswith(_BESIDE[1:]))


def make_private_folder(folder: Path) -> None:
    """Create a folder that only its owner can open; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    # Only for a new folder: an existing one may be shared.
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def _connect(path: Path) -> sqlite3.Connection:
    _make_private(path)
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    try:
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        migrate(connection)
        # Reads the root page of each table, where a crash or a bad copy shows.
        connection.execute("SELECT (SELECT max(rowid) FROM conversation), (SELECT max(id) FROM entry)").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """Create the file with private permissions while it is empty; SQLite copies them to its side files."""
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
    # The low byte is the kind of error, the higher bytes its cause.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _lock(path: Path) -> Path:
    return path.with_name(path.name + ".lock")
