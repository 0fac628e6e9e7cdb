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
HEADS = frozenset({"eagle3", "medusa"})
"""Methods whose drafters are draft heads; those of all others are draft models."""
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

    @property
    def is_head(self) -> bool:
        """Whether it is a draft head, which reads the target's rows, and no draft model."""
        return self.method in HEADS

    @property
    def speed_up(self) -> float:
        """Speed over plain decoding in its trial; 0 where the card does not say."""
        found = self._measured("speed_up")
        return float(found) if isinstance(found, int | float) else 0.0

    @property
    def pays(self) -> bool:
        """Whether it was faster than without it in its trial; others were kept because that was asked for."""
        return self._measured("pays") is True

    def _measured(self, name: str) -> Any:
        measured = self.record.get("measured")
        return measured.get(name) if isinstance(measured, dict) else None


def forged(folder: Path) -> list[Forged]:
    """Return the drafters in a folder, by name; damaged cards and cards without their file are left out."""
    try:
        cards = sorted(folder.glob("*.json"))
    except OSError:
        return []
    return [found for card in cards if (found := _read(card)) is not None]


def forged_for(folder: Path, target: Path) -> list[Forged]:
    """Return the drafters in a folder that were made for exactly this target, the fastest in its trial first.

    [] where the target's file can't be read.
    """
    # Most machines have none, and then no file is hashed.
    found = forged(folder)
    if not found:
        return []
    try:
        digest = fingerprint(target).digest
    except LocalspecError:
        return []
    return sorted((each for each in found if each.digest == digest), key=lambda each: -each.speed_up)


def forged_heads(folder: Path, target: Path) -> list[Path]:
    """Return the draft heads among the drafters that were made for a target."""
    return [each.path for each in forged_for(folder, target) if each.is_head]


def forged_models(folder: Path, target: Path) -> dict[str, Path]:
    """Return the draft models among the drafters that were made for a target, the fastest of each method."""
    found: dict[str, Path] = {}
    for each in forged_for(folder, target):
        if not each.is_head:
            found.setdefault(each.method, each.path)
    return found


def forged_model(folder: Path, target: Path) -> Path | None:
    """Return the draft model that was made for a target and pays, where no drafter that was made for it is faster."""
    found = forged_for(folder, target)
    return found[0].path if found and found[0].pays and not found[0].is_head else None


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
