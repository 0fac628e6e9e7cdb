"""Messages between a program and the child process that holds its target: pickled values with their length before.

The pipes have no buffer of their own, so that a look at one shows whether a message has come.
"""

import pickle
import struct
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import Any

from models.base import RewindSupport
from models.llama.cache_types import CacheTypes
from models.llama.load import LlamaOptions

_LENGTH = struct.Struct("<Q")
CONNECTED, PROGRESS, READY, DONE, FAILED, REFUSED = "connected", "progress", "ready", "done", "failed", "refused"
"""Kinds of replies: two while the model is loaded, its properties, a result, an error for the user, a ValueError."""


@dataclass(frozen=True, slots=True)
class Order:
    """The first message to a child: what to load."""

    path: Path
    options: LlamaOptions


@dataclass(frozen=True, slots=True)
class Properties:
    """What a child says of the model that it has loaded."""

    description: str
    context_size: int
    batch_size: int
    max_rows: int
    max_branches: int
    rewind_support: RewindSupport
    chat_template: str | None
    named_templates: dict[str, str]
    cache_types: CacheTypes
    trained: int
    size_bytes: int
    options: LlamaOptions


def send(stream: RawIOBase, message: Any) -> None:
    """Write one message; raises OSError for an end that is closed."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:
        # A pipe without a buffer may take a part.
        rest = rest[stream.write(rest) or 0 :]
    stream.flush()


def receive(stream: RawIOBase) -> Any:
    """Read one message; raises EOFError where the other end is closed."""
    (length,) = _LENGTH.unpack(_read(stream, _LENGTH.size))
    return pickle.loads(_read(stream, length))


def _read(stream: RawIOBase, length: int) -> bytearray:
    """Read so many bytes, piece by piece; raises EOFError where there are fewer."""
    data = bytearray(length)
    rest = memoryview(data)
    while rest:
        count = stream.readinto(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return data
