"""A short name for the contents of a model file, the same on every machine, in milliseconds.

It tells files apart by accident, not by malice: the start is hashed whole, where a model says what it is, and after
that a sample of the weights. A whole SHA-256 of a large model would take longer than loading it.
"""

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from models.errors import ModelFileError
from models.gguf.file import parts_of

_START = 1 << 20
_SAMPLE = 4096
_SAMPLES = 64


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Identity of a model's files."""

    size: int
    """Bytes of all of them."""
    digest: str
    """64 hexadecimal digits."""


def fingerprint(path: Path) -> Fingerprint:
    """Return the fingerprint of a model, of a split one over all parts; raises ModelFileError."""
    digest, size = hashlib.sha256(), 0
    for part in parts_of(path):
        try:
            # A pipe or a device would be read for ever.
            if not stat.S_ISREG(part.stat().st_mode):
                raise ModelFileError(f"{part} is not a file.", hint="Name a GGUF file.")
            with part.open("rb") as file:
                length = file.seek(0, 2)
                digest.update(length.to_bytes(8, "little"))
                for piece in _pieces(file, length):
                    digest.update(piece)
        except OSError as error:
            raise ModelFileError(f"{part} can't be read.", cause=str(error), hint="Check its permissions.") from error
        size += length
    return Fingerprint(size, digest.hexdigest())


def _pieces(file: BinaryIO, length: int) -> list[bytes]:
    places = {_START + (length - _START - _SAMPLE) * step // _SAMPLES for step in range(_SAMPLES + 1)}
    pieces = [_read(file, 0, _START)]
    return pieces + [_read(file, place, _SAMPLE) for place in sorted(places) if place > 0]


def _read(file: BinaryIO, place: int, size: int) -> bytes:
    file.seek(place)
    return file.read(size)
