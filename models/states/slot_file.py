"""File of one slot's whole text and its states, in numpy's archive format, which has a checksum for each part."""

import os
import secrets
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.llama.cache import State
from models.states.folder import DamagedStateError

_KIND = "localspec slot 1"


@dataclass(frozen=True, slots=True)
class SlotText:
    """The text of a slot with what the target computed from it."""

    identity: bytes
    """Identity of the cache, as `models.states.identity.identity_of` returns it."""
    tokens: Sequence[int]
    parts: Sequence[tuple[int, State]]
    """Tokens and state of each part of the text, in order."""

    @property
    def size(self) -> int:
        """Bytes of all states."""
        return sum(state.nbytes for _, state in self.parts)


def write_slot(path: Path, text: SlotText) -> int:
    """Write a slot's text in place of what is there, whole or not at all; return the bytes. Raises OSError."""
    arrays: dict[str, NDArray[Any]] = {f"state{place}": state for place, (_, state) in enumerate(text.parts)}
    counts = np.array([count for count, _ in text.parts], np.int32)
    arrays["kind"], arrays["identity"] = np.array(_KIND), np.frombuffer(text.identity, np.uint8)
    arrays["tokens"], arrays["counts"] = np.array(text.tokens, np.int32), counts
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return path.stat().st_size


def read_slot(path: Path) -> SlotText:
    """Return the text of a slot's file; raises DamagedStateError, and OSError where it can't be read."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            if str(found["kind"]) != _KIND:
                raise DamagedStateError("it is of another version")
            counts = [int(count) for count in found["counts"]]
            parts = [(count, found[f"state{place}"]) for place, count in enumerate(counts)]
            text = SlotText(found["identity"].tobytes(), found["tokens"].tolist(), parts)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise DamagedStateError("it holds no slot, or was cut short") from error
    if min([1, *counts]) < 1 or sum(counts) != len(text.tokens):
        raise DamagedStateError("its parts do not make its text")
    return text
