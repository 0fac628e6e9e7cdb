"""GGUF headers put together byte by byte, so that any part of one can be wrong."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import pack
from typing import NamedTuple


class Array(NamedTuple):
    """An array of metadata: strings, or whole numbers of four bytes with a sign."""

    items: Sequence[str] | Sequence[int]


class Weights(NamedTuple):
    """A tensor of zeros."""

    name: str
    shape: tuple[int, ...] = (4, 2)
    kind: int = 0
    offset: int = 0


Value = str | int | bool | float | Array

VOCABULARY: Mapping[str, Value] = {
    "general.architecture": "llama",
    "general.name": "raw",
    "general.file_type": 0,
    "llama.context_length": 512,
    "llama.block_count": 1,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 128,
    "llama.attention.head_count": 2,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": Array(["a", "b", "ab", "<end>"]),
    "tokenizer.ggml.token_type": Array([1, 1, 1, 3]),
    "tokenizer.ggml.merges": Array(["a b"]),
    "tokenizer.ggml.eos_token_id": 3,
}
"""Metadata of a model of four tokens."""


def text(value: str) -> bytes:
    """Return a string as it is in a file."""
    data = value.encode()
    return pack("<Q", len(data)) + data


def value_bytes(value: Value) -> bytes:
    """Return a value after its type."""
    if isinstance(value, str):
        return pack("<I", 8) + text(value)
    if isinstance(value, bool):
        return pack("<IB", 7, value)
    if isinstance(value, float):
        return pack("<If", 6, value)
    if isinstance(value, int):
        return pack("<II", 4, value)
    if value.items and isinstance(value.items[0], str):
        return pack("<IIQ", 9, 8, len(value.items)) + b"".join(text(str(item)) for item in value.items)
    return pack("<IIQ", 9, 5, len(value.items)) + b"".join(pack("<i", int(item)) for item in value.items)


def gguf_bytes(
    values: Mapping[str, Value] = VOCABULARY,
    tensors: Sequence[Weights] = (Weights("token_embd.weight"),),
    *,
    version: int = 3,
    keys: int | None = None,
    count: int | None = None,
    data: int = 64,
) -> bytes:
    """Return a file; `keys` and `count` are what it claims, unless it is the truth, `data` its bytes of weights."""
    head = b"GGUF" + pack(
        "<IQQ", version, len(tensors) if count is None else count, len(values) if keys is None else keys
    )
    body = b"".join(text(key) + value_bytes(value) for key, value in values.items())
    for tensor in tensors:
        shape = b"".join(pack("<Q", size) for size in tensor.shape)
        body += text(tensor.name) + pack("<I", len(tensor.shape)) + shape + pack("<IQ", tensor.kind, tensor.offset)
    whole = head + body
    return whole + bytes(-len(whole) % 32 + data)


def write_raw(path: Path, values: Mapping[str, Value] | None = None, **changes: object) -> Path:
    """Write a file with these values on top of VOCABULARY; return `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gguf_bytes({**VOCABULARY, **(values or {})}, **changes))  # type: ignore[arg-type]
    return path
