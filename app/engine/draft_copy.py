"""A draft model in four bits, written when its file is first used: drafting costs what its steps cost, and little else.

A copy only guesses a little otherwise, and every guess is checked. Which quantisation is best, `localspec tune` finds
out; what is written here takes seconds, and is not written where tuning has found anything.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from models.abort import AbortFlag
from models.bytes_read import read_a_token
from models.errors import Cancelled, LocalspecError
from models.gguf_header import read_model
from models.requantise import requantise

_KIND = "Q4_0"
"""It is written twenty times as quickly as IQ4_NL, which loses a little less."""
_BITS = 5.5
"""Bits of a weight that a step reads on average from which on a copy of four and a half is much quicker."""
_SMALLEST, _LARGEST = 100 << 20, 1 << 30
"""Bytes of a file: less is quick as it is, and more would take half a minute to write."""
_COPIED = (
    "A copy of {} in four bits was written ({}): it drafts faster, and the text stays the same. --no-draft-copy uses "
    "the file itself."
)
_log = logging.getLogger("localspec.draft_copy")
Tell = Callable[[str, float | None], None]
"""Receives what is done, in words, and None; see `app.engine.load`."""


def place_of_copy(folder: Path, path: Path, kind: str) -> Path:
    """Return where a copy of this very file is kept."""
    state = path.stat()
    text = f"{path.resolve()} {state.st_size} {state.st_mtime_ns}"
    return folder / f"{path.stem}-{kind}-{hashlib.sha256(os.fsencode(text)).hexdigest()[:8]}.gguf"


class DraftCopies:
    """Copies in a folder of draft models that would be slow as they are."""

    def __init__(self, folder: Path, abort: AbortFlag, tell: Tell, note: Callable[[str], None]) -> None:
        """Take where copies are, who stops the writing of one, who hears of its progress, and of the new copy."""
        self._folder = folder
        self._abort = abort
        self._tell = tell
        self._note = note

    def quickest(self, path: Path) -> Path:
        """Return a copy of a draft model, written now if need be; the file itself where none is worth it, or possible.

        Raises Cancelled when the abort flag is raised meanwhile, and ModelFileError for a file that is no model.
        """
        copy = place_of_copy(self._folder, path, _KIND)
        if copy.is_file():
            return copy
        if not _is_worth_it(path):
            return path
        try:
            self._write(path, copy)
        except Cancelled:
            raise
        except (LocalspecError, OSError) as error:
            # The file itself drafts too; no room, for one, is no reason to fail.
            _log.warning("%s", error)
            return path
        return copy

    def _write(self, path: Path, copy: Path) -> None:
        words = f"{path.stem}: writing a copy in {_KIND}, once"
        self._tell(words, None)
        requantise(
            path, copy, _KIND, abort=self._abort, on_progress=lambda done: self._tell(f"{words}: {done:.0%}", None)
        )
        size = copy.stat().st_size / 2**20
        self._note(_COPIED.format(path.stem, f"{size:,.0f} MiB, in {copy.parent}"))


def is_written_at_load(path: Path, kind: str) -> bool:
    """Tell whether the first load that drafts with a file writes a copy of this kind by itself."""
    return kind == _KIND and _is_worth_it(path)


def _is_worth_it(path: Path) -> bool:
    if not _SMALLEST <= path.stat().st_size <= _LARGEST:
        return False
    read = read_a_token(read_model(path))
    weights = sum(tensor.elements for tensor, size in read.items() if size)
    return sum(read.values()) * 8 >= _BITS * weights
