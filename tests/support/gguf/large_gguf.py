"""Large GGUF files with random weights: the shapes of real models, whose passes cost what those of such a model do.

The blocks of one layer are drawn once and written for every layer, so a file of gigabytes takes seconds. The text that
such a model makes is noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType
from numpy.typing import NDArray

_BLOCK = 256
"""Weights of a block of each type here."""
_STEPS = {"Q4_K": 147.0, "Q6_K": 600.0, "Q2_K": 8.3, "TQ1_0": 0.8, "TQ2_0": 0.8}
"""About how many times a block's factor its weights are, as a standard deviation."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model."""

    layers: int
    width: int
    heads: int
    key_heads: int
    head_size: int
    feed_forward: int
    vocabulary: int
    experts: int = 0
    used: int = 0


SHAPES = {
    "1.5b": Shape(28, 1536, 12, 2, 128, 8960, 151936),
    "7b": Shape(28, 3584, 28, 4, 128, 18944, 152064),
    "14b": Shape(48, 5120, 40, 8, 128, 13824, 152064),
    "30b-a3b": Shape(48, 2048, 32, 4, 128, 768, 151936, experts=128, used=8),
}
"""Qwen2.5 1.5B, 7B and 14B, and Qwen3 30B-A3B. The first three as a llama, which has no biases."""


def write_shape(path: Path, shape: Shape, kind: str = "Q4_K_M", *, layers: int | None = None) -> Path:
    """Write a model of a shape; return `path`.

    `kind` is "Q4_K_M" (half of the value and down matrices in Q6_K), or a block type for all matrices of the layers.
    With `layers` it has that many.
    """
    file = GGUFWriter(path, "qwen3moe" if shape.experts else "llama")
    drawn = _Drawn(file, "Q4_K" if kind == "Q4_K_M" else kind)
    layers = layers or shape.layers
    _keys(file, shape, layers)
    drawn.matrix("token_embd", "Q4_K", shape.vocabulary, shape.width)
    drawn.norm("output_norm", shape.width)
    drawn.matrix("output", "Q6_K", shape.vocabulary, shape.width)
    for layer in range(layers):
        # Q4_K_M has more bits in the first and last eighth of the layers, and in each third of the others.
        is_finer = kind == "Q4_K_M" and (not layers // 8 <= layer < 7 * layers // 8 or layer % 3 == 2)
        _layer(drawn, f"blk.{layer}", shape, "Q6_K" if is_finer else "")
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def _keys(file: GGUFWriter, shape: Shape, layers: int) -> None:
    file.add_name("random weights")
    file.add_file_type(LlamaFileType.MOSTLY_Q4_K_M)
    file.add_context_length(32768)
    file.add_block_count(layers)
    file.add_embedding_length(shape.width)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_head_count(shape.heads)
    file.add_head_count_kv(shape.key_heads)
    file.add_key_length(shape.head_size)
    file.add_value_length(shape.head_size)
    file.add_rope_dimension_count(shape.head_size)
    file.add_feed_forward_length(shape.feed_forward)
    if shape.experts:
        file.add_expert_count(shape.experts)
        file.add_expert_used_count(shape.used)
        file.add_expert_feed_forward_length(shape.feed_forward)
    file.add_tokenizer_model("llama")
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, *[TokenType.BYTE] * 256]
    others = shape.vocabulary - len(words)
    file.add_token_list([*words, *(f"▁w{number}" for number in range(others))])
    file.add_token_scores([0.0] * shape.vocabulary)
    file.add_token_types([*kinds, *[TokenType.NORMAL] * others])


def _layer(drawn: "_Drawn", name: str, shape: Shape, finer: str) -> None:
    width, heads, keys = shape.width, shape.heads * shape.head_size, shape.key_heads * shape.head_size
    drawn.norm(f"{name}.attn_norm", width)
    drawn.matrix(f"{name}.attn_q", "", heads, width)
    drawn.matrix(f"{name}.attn_k", "", keys, width)
    drawn.matrix(f"{name}.attn_v", finer, keys, width)
    drawn.matrix(f"{name}.attn_output", "", width, heads)
    drawn.norm(f"{name}.ffn_norm", width)
    rows, several = shape.feed_forward, [shape.experts] if shape.experts else []
    end = "_exps" if shape.experts else ""
    drawn.matrix(f"{name}.ffn_gate{end}", "", *several, rows, width)
    drawn.matrix(f"{name}.ffn_up{end}", "", *several, rows, width)
    drawn.matrix(f"{name}.ffn_down{end}", finer, *several, width, rows)
    if shape.experts:
        drawn.norm(f"{name}.attn_q_norm", shape.head_size)
        drawn.norm(f"{name}.attn_k_norm", shape.head_size)
        drawn.values(f"{name}.ffn_gate_inp.weight", (shape.experts, width))


class _Drawn:
    """Tensors with random values; those of one type and shape share them."""

    def __init__(self, file: GGUFWriter, kind: str) -> None:
        self._file = file
        self._kind = kind
        self._draw = np.random.default_rng(0)
        self._blocks: dict[tuple[str, Sequence[int]], NDArray[np.uint8]] = {}

    def norm(self, name: str, size: int) -> None:
        """Add the weights of a normalization."""
        self._file.add_tensor(f"{name}.weight", np.ones(size, np.float32))

    def values(self, name: str, shape: tuple[int, int]) -> None:
        """Add a matrix in F32."""
        self._file.add_tensor(name, (self._draw.standard_normal(shape) / sqrt(shape[1])).astype(np.float32))

    def matrix(self, name: str, kind: str, *shape: int) -> None:
        """Add a matrix in a type, "" for that of the file."""
        kind = kind or self._kind
        if (kind, shape) not in self._blocks:
            self._blocks[kind, shape] = blocks(kind, shape, self._draw)
        self._file.add_tensor(f"{name}.weight", self._blocks[kind, shape], raw_dtype=GGMLQuantizationType[kind])


def blocks(kind: str, shape: Sequence[int], draw: np.random.Generator) -> NDArray[np.uint8]:
    """Return random blocks of weights of about 1 / sqrt(columns), as bytes of shape (..., bytes of a row)."""
    count = prod(shape) // _BLOCK
    fields: list[NDArray[Any]]
    factor = 1 / (sqrt(shape[-1]) * _STEPS[kind])
    if kind == "Q4_K":
        # Factor and offset, 12 bytes of scales, 128 of pairs. The offset makes the mean zero.
        fields = [_halves(count, factor), _halves(count, 7.5 * factor), *_bytes(draw, count, 12, 128)]
    elif kind == "Q6_K":
        fields = [*_bytes(draw, count, 128, 64, 16), _halves(count, factor)]
    elif kind == "Q2_K":
        fields = [*_bytes(draw, count, 16, 64), _halves(count, factor), _halves(count, 1.5 * factor)]
    elif kind == "TQ2_0":
        # Four numbers of 0 to 2 in a byte.
        trits = draw.integers(0, 3, (4, count, 64), dtype=np.uint8)
        fields = [trits[0] | trits[1] << 2 | trits[2] << 4 | trits[3] << 6, _halves(count, factor)]
    else:
        # Five of them in a byte, as a fraction of 3 ** 5; in the last four bytes four.
        fields = [_ternary(draw, count, 48, 5), _ternary(draw, count, 4, 4), _halves(count, factor)]
    return np.concatenate(fields, axis=1).reshape(*shape[:-1], -1)


def _halves(count: int, value: float) -> NDArray[np.uint8]:
    return np.full((count, 1), value, np.float16).view(np.uint8)


def _bytes(draw: np.random.Generator, count: int, *sizes: int) -> list[NDArray[np.uint8]]:
    return [np.frombuffer(draw.bytes(count * size), np.uint8).reshape(count, size) for size in sizes]


def _ternary(draw: np.random.Generator, count: int, size: int, numbers: int) -> NDArray[np.uint8]:
    whole = draw.integers(0, 3**numbers, (count, size)) * 3 ** (5 - numbers)
    return ((whole * 256 + 242) // 243).astype(np.uint8)
