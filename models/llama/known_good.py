"""Tiny model that every working build decodes: where it fails too, the build is at fault, and not the user's file."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from struct import pack

from models.gguf.header import Header
from models.gguf.quantisation import TENSOR_TYPES

_WIDTH, _HEADS, _CONTEXT = 256, 4, 512
_PIECES = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)))
_KINDS = (2, 3, 3, *[6] * 256)
"""Of the tokens: unknown, control and byte."""
_MOST_TYPES = 3
_ALIGNMENT = 32
MULTIPLIED = frozenset((
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ1_S",
    "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS",
))  # fmt: skip
"""Types of matrices that every build multiplies by."""


def main_types(header: Header) -> list[str]:
    """Return the types in which most of a model's matrices are, as far as every build knows them."""
    sizes: Counter[str] = Counter()
    for tensor in header.tensors:
        if tensor.rows > 1 and tensor.type in MULTIPLIED:
            sizes[tensor.type] += tensor.size
    return [name for name, _ in sizes.most_common(_MOST_TYPES)] or ["F32"]


def write_known_good(path: Path, types: Sequence[str]) -> Path:
    """Write a model with a layer for each type, all weights 0; return `path`. Raises OSError."""
    tensors = [("token_embd.weight", (_WIDTH, len(_PIECES)), "F32"), ("output_norm.weight", (_WIDTH,), "F32")]
    for layer, name in enumerate(types):
        tensors += [(f"blk.{layer}.{part}_norm.weight", (_WIDTH,), "F32") for part in ("attn", "ffn")]
        parts = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
        tensors += [(f"blk.{layer}.{part}.weight", (_WIDTH, _WIDTH), name) for part in parts]
    described, offset = b"", 0
    codes = {kind.name: (code, kind) for code, kind in TENSOR_TYPES.items()}
    for tensor, shape, name in tensors:
        code, kind = codes[name]
        described += _text(tensor) + pack(f"<I{len(shape)}QIQ", len(shape), *shape, code, offset)
        size = _WIDTH * (shape[1] if len(shape) > 1 else 1) // kind.block * kind.size
        offset += size + -size % _ALIGNMENT
    values = _values(len(types))
    head = b"GGUF" + pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values) + described
    path.write_bytes(head + bytes(-len(head) % _ALIGNMENT + offset))
    return path


def _values(layers: int) -> list[bytes]:
    numbers = {
        "context_length": _CONTEXT, "embedding_length": _WIDTH, "block_count": layers, "feed_forward_length": _WIDTH,
        "attention.head_count": _HEADS,
    }  # fmt: skip
    return [
        _text("general.architecture") + pack("<I", 8) + _text("llama"),
        *(_text(f"llama.{name}") + pack("<II", 4, number) for name, number in numbers.items()),
        _text("llama.attention.layer_norm_rms_epsilon") + pack("<If", 6, 1e-5),
        _text("tokenizer.ggml.model") + pack("<I", 8) + _text("llama"),
        _array("tokens", 8, b"".join(map(_text, _PIECES))),
        _array("scores", 6, bytes(4 * len(_PIECES))),
        _array("token_type", 5, pack(f"<{len(_KINDS)}i", *_KINDS)),
    ]


def _array(name: str, kind: int, items: bytes) -> bytes:
    return _text(f"tokenizer.ggml.{name}") + pack("<IIQ", 9, kind, len(_PIECES)) + items


def _text(value: str) -> bytes:
    return pack("<Q", len(value)) + value.encode()
