"""Checkpoints of training: files that are whole or as they were before."""

import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from models.errors import LocalspecError


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write a checkpoint in place of a file; raises OSError, and leaves the file as it was."""
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def loaded_checkpoint(path: Path, device: torch.device) -> Iterator[dict[str, Any]]:
    """Give what a checkpoint holds; raises LocalspecError for a damaged one, and for one that does not fit its user."""
    try:
        yield torch.load(path, map_location=device, weights_only=True)
    except (RuntimeError, KeyError, ValueError, EOFError, OSError, pickle.UnpicklingError) as error:
        raise LocalspecError(
            f"The checkpoint {path} can't be read.",
            cause=(str(error).splitlines() or [type(error).__name__])[0],
            hint="Remove that file: training then begins again, with the answers that are there.",
        ) from error
