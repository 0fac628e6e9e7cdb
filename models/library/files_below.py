"""Walk of all files below a folder, through links to folders too, without following loops."""

import os
from collections.abc import Iterator
from pathlib import Path

_MOST_FILES = 20_000
_DEEPEST = 8


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, as far as that goes: some folders hold a whole disk."""
    left = _MOST_FILES
    for here, names in _folders(folder):
        for name in names[:left]:
            yield here / name
        left -= len(names)
        if left <= 0:
            return


def _folders(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield a folder and those below it, each once, with the names of its files; where links lead comes last."""
    seen: set[str] = set()
    for start in (starts := [folder]):
        for place, folders, names in os.walk(start):
            here, real = Path(place), os.path.realpath(place)
            if real in seen or len(here.relative_to(folder).parts) >= _DEEPEST:
                folders.clear()
            if real not in seen:
                seen.add(real)
                # A link may lead back to where it is.
                starts += [here / name for name in folders if (here / name).is_symlink()]
                yield here, names
