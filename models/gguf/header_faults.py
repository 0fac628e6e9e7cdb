"""Faults in a header at which llama.cpp would fail an assertion, throw, or never return."""

import re

from models.errors import ModelFileError
from models.gguf.header import Header
from models.gguf.quantisation import TENSOR_TYPES
from models.gguf.vocab import HeaderVocab

_MOST_LAYERS = 512
"""Layers that llama.cpp has room for."""
_VECTOR = re.compile(r"norm(?:_\w+)?\.(?:weight|bias)$|\.bias$")
"""Tensors that are added to, or multiplied with, numbers that are not packed."""
_PACKED = frozenset(kind.name for kind in TENSOR_TYPES.values() if kind.block > 1)
_FAMILIES = {"rwkv": "rwkv", "plamo2": "plamo"}
"""Tokenizers that one family of architectures has, by a part of its names; with others they take gigabytes."""
_OTHER = "Look for another copy of this model."


def check_layers(header: Header, architecture: str) -> None:
    """Raise ModelFileError for a number of layers, or types of tensors, that no model of this engine has."""
    layers = header.number(f"{architecture}.block_count")
    # A file that does not say is refused by llama.cpp, in words.
    if layers is not None and not 0 < layers <= _MOST_LAYERS:
        raise ModelFileError(
            f"{header.path.name} says that it has {layers:,} layers.",
            cause=f"{architecture}.block_count must be from 1 to {_MOST_LAYERS}.",
            hint=_OTHER,
        )
    for tensor in header.tensors:
        if tensor.type in _PACKED and _VECTOR.search(tensor.name):
            raise ModelFileError(
                f"{header.path.name} is damaged, or was quantised wrongly.",
                cause=f"The tensor {tensor.name!r} is in {tensor.type}, and may only be in a type of plain numbers.",
                hint=_OTHER,
            )


def check_tokenizer(header: Header, architecture: str) -> None:
    """Raise ModelFileError for a tokenizer that belongs to models of another kind."""
    tokenizer = header.text("tokenizer.ggml.model")
    if (family := _FAMILIES.get(tokenizer)) and family not in architecture:
        raise ModelFileError(
            f"{header.path.name} has the vocabulary of another kind of model.",
            cause=f"Its architecture is {architecture}, its tokenizer {tokenizer}.",
            hint=_OTHER,
        )


def check_bytes(header: Header, vocab: HeaderVocab) -> None:
    """Raise ModelFileError for a vocabulary that can't spell each byte: the first text with such a byte would throw."""
    if vocab.kind == "spm" and (missing := vocab.missing_bytes()):
        shown = ", ".join(f"<0x{byte:02X}>" for byte in missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise ModelFileError(
            f"{header.path.name} can't be loaded: its vocabulary is damaged.",
            cause=f"It lacks {len(missing)} of the 256 tokens for single bytes: {shown}",
            hint=_OTHER,
        )
