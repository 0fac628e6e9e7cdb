"""Four-bit copy of a draft model, written when its file is first used: drafting time is mostly the time of its steps.

A copy's drafts differ a little, and the target verifies every draft token. `localspec tune` finds the best
quantisation. The copy written here takes seconds, and is not written where `tune` has stored a result.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError, ModelFileError
from models.gguf.bytes_read import read_a_token
from models.gguf.header import read_model
from models.llama.requantise import remove_unfinished, requantise
from models.system.sealed import is_sealed, private_folder, remove_sealed, seal

_KIND = "Q4_0"
"""It is written twenty times as quickly as IQ4_NL, which loses a little less."""
_BITS = 5.5
"""Average bits of a weight from which on a copy with 4.5 bits is much faster."""
_SMALLEST, _LARGEST = 100 << 20, 1 << 30
"""Range of file sizes, in bytes: smaller files are fast enough, larger ones would take half a minute to write."""
_COPIED = (
    "A copy of {} in four bits was written ({}): it drafts faster, and the text stays the same. --no-draft-copy uses "
    "the file itself."
)
_log = logging.getLogger("localspec.draft_copy")
Opened = TypeVar("Opened")
Tell = Callable[[str, float | None], None]
"""Receives a progress text, and None; see `app.engine.runtime.load`."""


def place_of_copy(folder: Path, path: Path, kind: str) -> Path:
    """Return the path of the copy of a file; a changed file has another one."""
    state = path.stat()
    text = f"{path.resolve()} {state.st_size} {state.st_mtime_ns}"
    return folder / f"{path.stem}-{kind}-{hashlib.sha256(os.fsencode(text)).hexdigest()[:8]}.gguf"


def is_whole_copy(copy: Path) -> bool:
    """Tell whether a copy may be used: a plain file of this user, unchanged since it was written."""
    if is_sealed(copy):
        return True
    if os.path.lexists(copy):
        _log.warning("%s is damaged, or another program wrote it. It is written anew.", copy)
    return False


def keep_copy(made: Path, copy: Path) -> None:
    """Move a finished copy to its place; raises OSError, and ModelFileError for an unreadable copy."""
    read_model(made)
    seal(made, copy)


def open_copy(copy: Path, path: Path, open_file: Callable[[Path], Opened]) -> Opened:
    """Open a copy of a file, or the file itself where the copy does not load; the copy is then removed.

    Raises the errors of opening the file itself.
    """
    if copy == path:
        return open_file(path)
    try:
        return open_file(copy)
    except ModelFileError as error:
        _log.warning("%s is removed, and %s used: %s", copy, path, error)
    with suppress(OSError):
        remove_sealed(copy)
    return open_file(path)


class DraftCopies:
    """Folder of four-bit copies of draft models."""

    def __init__(self, folder: Path, abort: AbortFlag, tell: Tell, note: Callable[[str], None]) -> None:
        """Take the folder, the flag that stops writing, and the receivers of progress and of the note on a new copy."""
        self._folder = folder
        self._abort = abort
        self._tell = tell
        self._note = note

    def quickest(self, path: Path) -> Path:
        """Return a copy of a draft model, written now if needed; the file itself where no copy helps or fits.

        Raises Cancelled when the abort flag is raised meanwhile, and ModelFileError for a file that is no model.
        """
        copy = place_of_copy(self._folder, path, _KIND)
        remove_unfinished(self._folder)
        if is_whole_copy(copy):
            return copy
        if not _is_worth_it(path):
            return path
        try:
            self._write(path, copy)
        except Cancelled:
            raise
        except (LocalspecError, OSError) as error:
            # Without a copy, for lack of disk space for example, the file itself still drafts.
            _log.warning("%s", error)
            return path
        return copy

    def _write(self, path: Path, copy: Path) -> None:
        words = f"{path.stem}: writing a copy in {_KIND}, once"
        self._tell(words, None)
        private_folder(copy.parent)
        remove_sealed(copy)
        requantise(
            path,
            copy,
            _KIND,
            abort=self._abort,
            on_progress=lambda done: self._tell(f"{words}: {done:.0%}", None),
            finish=keep_copy,
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
