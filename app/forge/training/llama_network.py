"""A llama or qwen2 model in torch, with small matrices that are trained beside frozen ones (LoRA).

It computes what llama.cpp's graphs of these two architectures compute, in float32, from the numbers of a GGUF file.
There a llama model's queries and keys are turned in neighbouring pairs (NORM), a qwen2 model's in halves (NEOX).

Source of the small matrices: LoRA (Hu et al. 2021, arXiv 2106.09685).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from app.forge.training.network_facts import number
from app.forge.training.projections import PROJECTIONS
from models.gguf.header import read_model

Matrix = NDArray[np.float32]
RANK = 16
"""Columns of the small matrices."""
_STRENGTH = 2.0
"""Factor of their product."""


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """Sizes of a model."""

    layers: int
    heads: int
    heads_kv: int
    epsilon: float
    base: float
    """Base of the rotary embedding."""
    turned: int
    """Numbers of a head that are turned."""
    neighbours: bool
    """Whether neighbouring numbers are turned together; else those half a head apart."""


def shape_of(path: Path) -> NetworkShape:
    """Return the sizes of a model's file, which `reasons_against` has nothing against."""
    header = read_model(path)
    heads, width = int(number(header, "attention.head_count", 1)), int(number(header, "embedding_length", 1))
    size = int(number(header, "attention.key_length", width // heads))
    return NetworkShape(
        layers=int(number(header, "block_count", 0)),
        heads=heads,
        heads_kv=int(number(header, "attention.head_count_kv", heads)),
        epsilon=number(header, "attention.layer_norm_rms_epsilon", 1e-5),
        base=number(header, "rope.freq_base", 10000.0),
        turned=int(number(header, "rope.dimension_count", size)),
        neighbours=header.text("general.architecture") == "llama",
    )


class Projection(nn.Module):
    """A frozen matrix with a trained correction of low rank, which begins as zero."""

    def __init__(self, weight: Matrix, bias: Matrix | None) -> None:
        super().__init__()
        self.register_buffer("weight", torch.from_numpy(weight), persistent=False)
        self.register_buffer("bias", None if bias is None else torch.from_numpy(bias), persistent=False)
        rows, columns = weight.shape
        self.down = nn.Parameter(torch.randn(RANK, columns) / columns**0.5)
        self.up = nn.Parameter(torch.zeros(rows, RANK))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the products, corrected."""
        return functional.linear(rows, self.weight, self.bias) + _STRENGTH * (rows @ self.down.T) @ self.up.T

    @torch.no_grad()
    def merged(self) -> Matrix:
        """Return the matrix with its correction."""
        found: Matrix = (self.weight + _STRENGTH * self.up @ self.down).float().cpu().numpy()
        return found


class Layer(nn.Module):
    """Attention and feed-forward part of one layer."""

    def __init__(self, shape: NetworkShape, tensors: Mapping[str, Matrix], place: int) -> None:
        super().__init__()
        self.shape = shape
        self.parts = nn.ModuleDict(
            {name: Projection(*_weights(tensors, f"blk.{place}.{name}")) for name in PROJECTIONS}
        )
        for name in ("attn_norm", "ffn_norm"):
            self.register_buffer(name, torch.from_numpy(tensors[f"blk.{place}.{name}.weight"]), persistent=False)

    def forward(self, rows: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        """Return the rows after this layer, shape (batch, places, width)."""
        parts = self.parts
        normed = _normed(rows, self.attn_norm, self.shape.epsilon)
        query, key, value = (self._split(parts[f"attn_{name}"](normed)) for name in "qkv")
        query, key = (_turned(each, turn, self.shape) for each in (query, key))
        times = self.shape.heads // self.shape.heads_kv
        key, value = (each.repeat_interleave(times, dim=1) for each in (key, value))
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        rows = rows + parts["attn_output"](attended.transpose(1, 2).flatten(2))
        normed = _normed(rows, self.ffn_norm, self.shape.epsilon)
        inner = functional.silu(parts["ffn_gate"](normed)) * parts["ffn_up"](normed)
        found: Tensor = rows + parts["ffn_down"](inner)
        return found

    def _split(self, rows: Tensor) -> Tensor:
        """Return rows by heads, shape (batch, heads, places, size)."""
        size = self.parts["attn_q"].weight.shape[0] // self.shape.heads
        return rows.unflatten(-1, (-1, size)).transpose(1, 2)


class Network(nn.Module):
    """The model. Embedding, norms and output matrix stay as they are."""

    def __init__(self, shape: NetworkShape, tensors: Mapping[str, Matrix]) -> None:
        """Take the tensors of a file by their names there."""
        super().__init__()
        self.shape = shape
        self.layers = nn.ModuleList(Layer(shape, tensors, place) for place in range(shape.layers))
        embedding = torch.from_numpy(tensors["token_embd.weight"])
        output = torch.from_numpy(tensors["output.weight"]) if "output.weight" in tensors else embedding
        self.register_buffer("embedding", embedding, persistent=False)
        self.register_buffer("output", output, persistent=False)
        self.register_buffer("norm", torch.from_numpy(tensors["output_norm.weight"]), persistent=False)
        factors = tensors.get("rope_freqs.weight")
        self.register_buffer("rates", _rates(shape, factors), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the rows before the output matrix, shape (batch, places, width)."""
        rows = self.embedding[tokens]
        angles = torch.arange(tokens.shape[1], device=tokens.device)[:, None] * self.rates
        turn = angles.cos(), angles.sin()
        for layer in self.layers:
            rows = layer(rows, turn)
        return _normed(rows, self.norm, self.shape.epsilon)

    def logits(self, rows: Tensor) -> Tensor:
        """Return the logits after rows, shape (..., vocabulary)."""
        return rows @ self.output.T

    def merged(self) -> Iterator[tuple[str, Matrix]]:
        """Yield the names of the trained matrices in a file, and each matrix with its correction."""
        for place, layer in enumerate(self.layers):
            for name, part in layer.parts.items():
                yield f"blk.{place}.{name}.weight", part.merged()


def _weights(tensors: Mapping[str, Matrix], name: str) -> tuple[Matrix, Matrix | None]:
    return tensors[f"{name}.weight"], tensors.get(f"{name}.bias")


def _normed(rows: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return functional.rms_norm(rows, weight.shape, weight, epsilon)


def _rates(shape: NetworkShape, factors: Matrix | None) -> Tensor:
    rates = shape.base ** (-torch.arange(0, shape.turned, 2) / shape.turned)
    return rates if factors is None else rates / torch.from_numpy(factors)


def _turned(rows: Tensor, turn: tuple[Tensor, Tensor], shape: NetworkShape) -> Tensor:
    """Turn pairs of numbers by their place."""
    (cos, sin), turned = turn, rows[..., : shape.turned]
    half = shape.turned // 2
    if shape.neighbours:
        one, other = turned[..., 0::2], turned[..., 1::2]
    else:
        one, other = turned[..., :half], turned[..., half:]
    both = one * cos - other * sin, one * sin + other * cos
    found = torch.stack(both, dim=-1).flatten(-2) if shape.neighbours else torch.cat(both, dim=-1)
    return torch.cat((found, rows[..., shape.turned :]), dim=-1)
