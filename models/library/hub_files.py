"""Files of the hub and their places in its cache: blobs by checksum, and snapshots of links to them.

The layout is that of the hub's own library, so what is put here is found by every program that uses it.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from models.library.stores import hub_folder
from models.system.bounded_read import LARGEST_RECORD, read_regular
from models.system.whole_file import SHARED, write_whole

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of one revision of a repository."""

    repo: str
    commit: str
    revision: str
    """The name by which that commit was asked for."""
    name: str
    """Path within the repository."""
    size: int
    sha256: str

    @property
    def folder(self) -> Path:
        """The repository's folder in the cache."""
        return hub_folder() / f"models--{self.repo.replace('/', '--')}"

    @property
    def path(self) -> Path:
        """Path of the file after its download."""
        return self.folder / "snapshots" / self.commit / self.name

    @property
    def blob(self) -> Path:
        """Path of its bytes."""
        return self.folder / "blobs" / self.sha256

    @property
    def partial(self) -> Path:
        """Path of its bytes until all have come and are checked."""
        return self.blob.with_name(f"{self.sha256}.incomplete")

    @property
    def lock(self) -> Path:
        """The file that programs lock while they fetch this one."""
        return self.folder.parent / ".locks" / self.folder.name / f"{self.sha256}.lock"

    @property
    def is_here(self) -> bool:
        """True if it is in the cache, whichever program downloaded it."""
        return _size(self.path) == self.size

    @property
    def has_blob(self) -> bool:
        """True if its bytes are in the cache, perhaps for another revision."""
        return _size(self.blob) == self.size

    @property
    def fetched(self) -> int:
        """Bytes of it that are here."""
        return self.size if self.is_here or self.has_blob else min(self.size, _size(self.partial))


@dataclass(frozen=True, slots=True)
class Repository:
    """Answer of the hub about a repository at one revision."""

    repo: str
    commit: str
    files: tuple[HubFile, ...]
    """Its model files, in order; none whose name would lead out of the cache, or that has no checksum."""


def is_commit(text: object) -> TypeGuard[str]:
    """Return whether this is the name of a commit."""
    return isinstance(text, str) and _COMMIT.fullmatch(text) is not None


def is_checksum(text: object) -> TypeGuard[str]:
    """Return whether this is a SHA-256."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def is_safe(name: str) -> bool:
    """Return whether a path within a repository stays within it on every system."""
    return not any(part in ("", ".", "..") for part in name.split("/")) and not re.search(r"[\\:\0]", name)


def file_of(repo: str, commit: str, revision: str, entry: object) -> HubFile | None:
    """Return what the hub says of one file; None for what is no model file, or can't be checked."""
    if not isinstance(entry, dict):
        return None
    name, lfs = entry.get("rfilename"), entry.get("lfs")
    if (
        not isinstance(name, str)
        or not name.lower().endswith(".gguf")
        or not is_safe(name)
        or not isinstance(lfs, dict)
    ):
        return None
    size, checksum = lfs.get("size"), lfs.get("sha256")
    if not isinstance(size, int) or size <= 0 or not is_checksum(checksum):
        return None
    return HubFile(repo, commit, revision, name, size, str(checksum))


def keep(file: HubFile) -> None:
    """Give a file whose bytes have come and are checked its name among the blobs; raises OSError."""
    try:
        file.partial.replace(file.blob)
    except OSError:
        # Where locks do nothing, another program may have renamed it a moment before.
        if not (file.is_here or file.has_blob):
            raise
        file.partial.unlink(missing_ok=True)


def link(file: HubFile) -> None:
    """Let a blob be found in its snapshot, and its revision under the name it was asked for; raises OSError."""
    file.path.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_here:
        _link(file)
    if file.revision != file.commit:
        _write(file.folder / "refs" / file.revision, file.commit)


def _link(file: HubFile) -> None:
    file.path.unlink(missing_ok=True)
    try:
        file.path.symlink_to(os.path.relpath(file.blob, file.path.parent))
    except FileExistsError:
        # Where locks do nothing: another program has made the same link since it was removed here.
        return
    except OSError:
        # Windows lets only some users make links; its own library then does without the blob, too.
        file.blob.replace(file.path)


def unlink(files: Sequence[HubFile]) -> int:
    """Remove files, whole or partial, from the cache; return the bytes that are free again. Raises OSError.

    What another snapshot shows stays, and so do the other files of the same one.
    """
    freed = sum(_unlink(file) for file in files)
    for file in files:
        _tidy(file)
    return freed


def _unlink(file: HubFile) -> int:
    freed = 0 if file.path.is_symlink() else _size(file.path)
    file.path.unlink(missing_ok=True)
    gone = [file.partial]
    if not any(_leads_to(path, file.blob) for path in (file.folder / "snapshots").rglob("*")):
        gone.append(file.blob)
    for path in gone:
        freed += _size(path)
        path.unlink(missing_ok=True)
    file.lock.unlink(missing_ok=True)
    return freed


def _tidy(file: HubFile) -> None:
    """Remove the folders that are empty now, up to the repository's, and the names of a revision that is gone."""
    snapshot = file.folder / "snapshots" / file.commit
    _remove_empty(file.path.parent, until=snapshot.parent.parent)
    if not snapshot.exists():
        for name in list((file.folder / "refs").rglob("*")):
            if _content(name).strip() == file.commit.encode():
                name.unlink()
                _remove_empty(name.parent, until=file.folder)
    _remove_empty(file.blob.parent, until=file.folder.parent)
    _remove_empty(file.lock.parent, until=file.lock.parent.parent)


def _remove_empty(folder: Path, until: Path) -> None:
    while folder != until:
        if folder.exists():
            # What is not empty can't be removed this way, and nothing above it is empty either.
            try:
                folder.rmdir()
            except OSError:
                return
        folder = folder.parent


def _leads_to(path: Path, blob: Path) -> bool:
    return path.is_symlink() and path.resolve() == blob.resolve()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _write(path: Path, text: str) -> None:
    """Write a small file of the cache, which may have other users."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if _content(path) != text.encode():
        write_whole(path, text, SHARED)


def _content(path: Path) -> bytes:
    """Return the bytes of a small file of the cache; none for a folder, a large file, or no file."""
    try:
        return read_regular(path, LARGEST_RECORD)
    except OSError:
        return b""
