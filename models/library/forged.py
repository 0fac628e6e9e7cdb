"""Drafters that were made on this machine: each a file beside a card, which names the target it was made for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.errors import LocalspecError
from models.gguf.fingerprint import fingerprint
from models.system.bounded_read import UnfitFile, read_regular

FORMAT = 1
_LARGEST = 1 << 16
"""Bytes of a card; what is larger is none."""


@dataclass(frozen=True, slots=True)
class Forged:
    """A drafter that was made here."""

    card: Path
    path: Path
    """Its GGUF file, beside the card."""
    method: str
    target: str
    """Name of the target, as it was given."""
    digest: str
    """Fingerprint of the target's file."""
    record: Mapping[str, Any]
    """The whole card."""

    @property
    def name(self) -> str:
        """Name of the drafter, for commands."""
        return self.card.stem


def forged(folder: Path) -> list[Forged]:
    """Return the drafters in a folder, by name; damaged cards and cards without their file are left out."""
    try:
        cards = sorted(folder.glob("*.json"))
    except OSError:
        return []
    return [found for card in cards if (found := _read(card)) is not None]


def forged_heads(folder: Path, target: Path) -> list[Path]:
    """Return the draft heads in a folder that were made for exactly this target; [] where its file can't be read."""
    # Most machines have none, and then no file is hashed.
    heads = [each for each in forged(folder) if each.method == "eagle3"]
    if not heads:
        return []
    try:
        digest = fingerprint(target).digest
    except LocalspecError:
        return []
    return [each.path for each in heads if each.digest == digest]


def _read(card: Path) -> Forged | None:
    try:
        record = json.loads(read_regular(card, _LARGEST))
        names = (record["method"], record["target"]["name"], record["target"]["fingerprint"])
        path = card.with_suffix(".gguf")
        if record["format"] != FORMAT or not all(isinstance(name, str) for name in names) or not path.is_file():
            return None
    except (OSError, UnfitFile, ValueError, KeyError, TypeError, RecursionError):
        return None
    return Forged(card, path, *names, record)
