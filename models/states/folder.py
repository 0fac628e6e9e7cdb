"""Folder of states: one folder for each conversation in it, private, within limits of bytes and age.

Each file is written under another name first, and has a checksum: a process that is killed leaves whole files behind,
and whatever else is found is not used.
"""

import os
import secrets
import shutil
import time
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from models.system.sealed import private_folder

if TYPE_CHECKING:
    # Listing and removing conversations must not import the engine.
    from models.llama.cache import State

_MAGIC = b"localspec state 1\n"
_SUM = 4
_PARTIAL = ".partial"
_DAY = 86_400.0
_STALE = 3_600.0
"""Seconds after which a partial file is one that a killed process has left."""
_LEAST_FREE = 1 << 30
"""Bytes of the disk that stay free."""


class DamagedStateError(Exception):
    """A file of a state that is not whole, with the reason in a clause."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Folder of the states of conversations; several processes may use it at once."""

    path: Path
    most_bytes: int
    """Bytes of all states; 0: none is kept."""
    most_days: float
    """Days after its last use that a conversation's states are kept."""

    def keys(self) -> list[str]:
        """Return the conversations that have states."""
        try:
            return [entry.name for entry in os.scandir(self.path) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []

    def names(self, key: str) -> list[str]:
        """Return the names of a conversation's files."""
        try:
            return sorted(path.name for path in (self.path / key).iterdir())
        except OSError:
            return []

    def write(self, key: str, name: str, state: "State") -> bool:
        """Write one state, whole or not at all; False: it has no room. Raises OSError."""
        folder = self._private(key)
        if state.nbytes + self.size(key) > self.most_bytes or self._free() - state.nbytes < _LEAST_FREE:
            return False
        partial = folder / f"{name}.{secrets.token_hex(4)}{_PARTIAL}"
        try:
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                # Not synced: after a power cut the checksum tells what reached the disk, and the text is read again.
                file.write(_MAGIC + zlib.crc32(state.data).to_bytes(_SUM, "little"))
                file.write(state.data)
            partial.replace(folder / name)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        return True

    def read(self, key: str, name: str) -> "State":
        """Return one state; raises DamagedStateError and OSError."""
        import numpy as np

        with FileIO(self.path / key / name) as file:
            size = os.fstat(file.fileno()).st_size - len(_MAGIC) - _SUM
            head = file.read(len(_MAGIC) + _SUM)
            if size < 0 or not head.startswith(_MAGIC):
                raise DamagedStateError("it is no state")
            state = np.empty(size, np.uint8)
            if _read_into(file, state) != size:
                raise DamagedStateError("it is cut short")
        if zlib.crc32(state.data).to_bytes(_SUM, "little") != head[len(_MAGIC) :]:
            raise DamagedStateError("its checksum is another")
        return state

    def use(self, key: str) -> None:
        """Note that a conversation's states are in use now."""
        with suppress(OSError):
            os.utime(self.path / key)

    def keep_only(self, key: str, names: Collection[str]) -> None:
        """Remove a conversation's other files, as those of a branch that is not continued."""
        for name in self.names(key):
            if name not in names and not name.endswith(_PARTIAL):
                self.discard(key, name)

    def discard(self, key: str, name: str) -> None:
        """Remove one state, as a damaged one."""
        with suppress(OSError):
            (self.path / key / name).unlink()

    def remove(self, key: str) -> None:
        """Remove a conversation's states; raises OSError for what stays."""
        folder = self.path / key
        if folder.is_dir():
            shutil.rmtree(folder)

    def size(self, key: str) -> int:
        """Return the bytes of a conversation's states."""
        return sum(size for size, _ in _files(self.path / key))

    def trim(self, current: str = "") -> None:
        """Remove what is too old, then the longest unused until the rest fits; the current conversation goes last."""
        now, total, kept = time.time(), 0, list[tuple[bool, float, str, int]]()
        for key in self.keys():
            self._remove_partial(key, now)
            used = self._used(key)
            if key != current and now - used > self.most_days * _DAY:
                self._drop(key)
                continue
            size = self.size(key)
            total += size
            kept.append((key == current, used, key, size))
        for _, _, key, size in sorted(kept):
            if total <= self.most_bytes:
                return
            self._drop(key)
            total -= size

    def _used(self, key: str) -> float:
        try:
            return (self.path / key).stat().st_mtime
        except OSError:
            return 0.0

    def _drop(self, key: str) -> None:
        with suppress(OSError):
            self.remove(key)

    def _remove_partial(self, key: str, now: float) -> None:
        for path in (self.path / key).glob(f"*{_PARTIAL}"):
            with suppress(OSError):
                if now - path.stat().st_mtime > _STALE:
                    path.unlink()

    def _private(self, key: str) -> Path:
        folder = self.path / key
        private_folder(self.path)
        private_folder(folder)
        return folder

    def _free(self) -> int:
        return shutil.disk_usage(self.path).free


def _files(folder: Path) -> Iterator[tuple[int, str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_file(follow_symlinks=False):
                    yield entry.stat().st_size, entry.name


def _read_into(file: FileIO, state: "State") -> int:
    """Fill an array from a file; return the bytes that there were."""
    view, done = state.data, 0
    while done < len(view) and (read := file.readinto(view[done:])):
        done += read
    return done
