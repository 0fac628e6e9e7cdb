"""Sizes of folders, measured within limits: some folders hold a whole disk."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_MOST_ENTRIES = 20_000
_SECONDS = 0.15
_UNREADABLE = -1


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured size and number of files."""

    size: int
    files: int
    complete: bool
    """Whether all files were counted; if not, the size is a lower bound."""


def measure(
    places: Iterable[Path],
    *,
    entries: int = _MOST_ENTRIES,
    seconds: float = _SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Measured:
    """Return the size of all files in these folders, and of these files; links count as nothing."""
    end, total, files, complete = clock() + seconds, 0, 0, True
    for count, size in enumerate(size for place in places for size in _sizes(place)):
        if count >= entries or clock() > end:
            return Measured(total, files, complete=False)
        if size == _UNREADABLE:
            complete = False
        elif size is not None:
            total, files = total + size, files + 1
    return Measured(total, files, complete)


def is_there(place: Path) -> bool:
    """Tell whether a path exists; an unreadable one does."""
    try:
        return place.exists()
    except OSError:
        return True


def _sizes(place: Path) -> Iterator[int | None]:
    """Yield the bytes of each file, and None for any other entry."""
    folders = [place]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(folder / entry.name)
                    yield entry.stat().st_size if entry.is_file(follow_symlinks=False) else None
        except NotADirectoryError:
            yield folder.stat().st_size
        except OSError:
            yield _UNREADABLE
