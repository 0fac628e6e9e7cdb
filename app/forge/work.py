"""Folder of one target's forging: everything that the same command goes on from after any end."""

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from models.errors import LocalspecError, UsageError
from models.system.file_lock import locked
from models.system.whole_file import write_whole

_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, slots=True)
class Progress:
    """What was done so far."""

    collected: float = 0.0
    """Seconds spent on answers."""
    trained: float = 0.0
    """Seconds spent on training, as of the last checkpoint."""


class Work:
    """One folder, held by one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.start = folder / "start.npz"
        self.checkpoint = folder / "training.pt"
        self.drafter = folder / "drafter.gguf"

    @property
    def progress(self) -> Progress:
        """What was done so far; nothing where the file is missing or damaged."""
        try:
            record = json.loads((self.folder / "progress.json").read_text(encoding="utf-8"))
            return Progress(float(record["collected"]), float(record["trained"]))
        except (OSError, ValueError, KeyError, TypeError):
            return Progress()

    def note(self, progress: Progress) -> None:
        """Write what was done so far; raises OSError."""
        write_whole(self.folder / "progress.json", json.dumps(asdict(progress)))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder, made where it is missing; raises LocalspecError where another process does."""
        with disk_errors(self.folder):
            # Answers to the user's own prompts are in it.
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                with locked(self.folder / "lock", patience=0.5):
                    yield
            except TimeoutError as error:
                raise UsageError(
                    "Another process is forging for this target.", hint="Wait for it, or end it: its work is kept."
                ) from error

    def remove(self) -> None:
        """Remove everything; raises OSError."""
        if self.folder.exists():
            shutil.rmtree(self.folder)


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn the system's errors of files into words; what was written before is whole."""
    try:
        yield
    except TimeoutError:
        raise
    except OSError as error:
        full = error.errno in _FULL
        raise LocalspecError(
            "The disk is full." if full else "A file can't be written or read.",
            cause=f"{folder}: {error.strerror or error}",
            hint="Free some space; the same command then goes on from what was done."
            if full
            else "Check the permissions of the folder; the same command goes on.",
        ) from error
