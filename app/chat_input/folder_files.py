"""Files of a folder, for completion: listed by git, or by a bounded walk outside a repository."""

import os
import stat
import subprocess
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

_PATIENCE = 5.0
"""Seconds for git; a repository that takes longer is listed by a walk."""
_ENTRIES_A_FILE = 4
"""Names read per file of the limit before the walk ends."""
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "build", "dist", "target"})
"""Folders of built or downloaded files, skipped as hidden folders are."""


def candidates(folder: Path, limit: int = 20_000) -> list[str]:
    """Return up to `limit` files of a folder and those below it, as paths from there with "/", in no promised order.

    Links that lead out of the folder, and names that no message could hold, are left out; what can't be read too.
    """
    names = _in_repository(folder)
    if names is None:
        names = _walk(folder, limit)
    return list(islice((name for name in names if name.isprintable() and '"' not in name), limit))


def _in_repository(folder: Path) -> Iterator[str] | None:
    # A repository can name a program as its file watcher, and git would run it.
    command = ["git", "-c", "core.fsmonitor=false", "ls-files", "-co", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    root = os.path.realpath(folder)
    names = dict.fromkeys(os.fsdecode(done.stdout).split("\0"))
    return (name for name in names if name and _is_file_inside(f"{root}/{name}", root))


def _walk(folder: Path, limit: int) -> Iterator[str]:
    """Yield files level by level, so that a bound leaves out the deepest ones."""
    root = os.path.realpath(folder)
    waiting = deque([root])
    left = limit * _ENTRIES_A_FILE
    while waiting and left > 0:
        for entry in islice(_entries(waiting.popleft()), left):
            left -= 1
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    waiting.append(entry.path)
            elif _is_file_inside(entry.path, root):
                yield Path(entry.path).relative_to(root).as_posix()


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from sorted(found, key=lambda entry: entry.name)
    except OSError:
        return


def _is_file_inside(path: str, root: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    if not stat.S_ISLNK(mode):
        return stat.S_ISREG(mode)
    real = Path(os.path.realpath(path))
    return real.is_relative_to(root) and real.is_file()
