r"""File format of kept texts: a line of JSON that names their owner, then each text with length and checksum.

    {"localspec texts": 1, "project": "/home/ada/engine", "tokenizer": "6c1f...", "model": "big"}\n
    tokens (uint32)  CRC-32 of the ids (uint32)  ids (int32 each)        ... little-endian, once for each text

Reading never fails. It ends at the first text that is not whole: what was cut off by a crash, or damaged by a disk,
costs what comes after it and nothing else. A text is handled as the bytes of its ids.
"""

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from zlib import crc32

import numpy as np

TOKEN_BYTES = 4
_VERSION_KEY, _VERSION = "localspec texts", 1
_PREFIX = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class Header:
    """Whose texts a file holds."""

    project: str
    """Folder in which they were said."""
    tokenizer: str
    """Key of the vocabulary that their ids belong to."""
    model: str
    """Name of the model that wrote last; for people, other models may share its tokenizer."""


def from_tokens(tokens: Sequence[int]) -> bytes:
    """Return a text as bytes."""
    return np.asarray(tokens, dtype="<i4").tobytes()


def to_tokens(text: bytes) -> list[int]:
    """Return the ids of a text."""
    ids: list[int] = np.frombuffer(text, dtype="<i4").tolist()
    return ids


def stored_bytes(text: bytes) -> int:
    """Return how much of a file a text takes."""
    return _PREFIX.size + len(text)


def dump_header(header: Header) -> bytes:
    """Return the first line of a file."""
    # Escapes keep it one line, and take a path that is no valid text.
    return json.dumps({_VERSION_KEY: _VERSION, **asdict(header)}).encode("ascii") + b"\n"


def dump(header: Header, texts: Iterable[bytes]) -> bytes:
    """Return a whole file."""
    records = (_PREFIX.pack(len(text) // TOKEN_BYTES, crc32(text)) + text for text in texts)
    return dump_header(header) + b"".join(records)


def parse(data: bytes) -> tuple[Header | None, list[bytes], int]:
    """Return the header, the texts, oldest first, and how many bytes at the end were no whole text.

    None and no texts for what is no such file, or one of another version.
    """
    line, end, _ = data.partition(b"\n")
    header = _parse_header(line)
    if header is None or not end:
        return None, [], len(data)
    place, texts = len(line) + 1, []
    while text := _text_at(data, place):
        texts.append(text)
        place += stored_bytes(text)
    return header, texts, len(data) - place


def _parse_header(line: bytes) -> Header | None:
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict) or fields.pop(_VERSION_KEY, None) != _VERSION:
            return None
        header = Header(**fields)
    except (ValueError, TypeError, RecursionError):
        return None
    return header if all(isinstance(value, str) for value in asdict(header).values()) else None


def _text_at(data: bytes, place: int) -> bytes:
    """Return the text that begins at a place; b"" where none does."""
    if place + _PREFIX.size > len(data):
        return b""
    tokens, checksum = _PREFIX.unpack_from(data, place)
    start = place + _PREFIX.size
    text = data[start : start + tokens * TOKEN_BYTES]
    # A crash can leave zeros behind: no tokens with a checksum of 0, which is right, over and over.
    return text if len(text) == tokens * TOKEN_BYTES and crc32(text) == checksum else b""
