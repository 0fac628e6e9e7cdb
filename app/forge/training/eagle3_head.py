"""An EAGLE-3 head in torch: one layer over three of the target's layers, as llama.cpp's graph computes it.

Source: Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time Test",
arXiv 2503.01840. The pair of place p is the token p + 1 and the fused row of place p; the head predicts token p + 2.
In a further step it reads its own row in place of the fused one, as when it drafts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a head."""

    width: int
    rows: int
    """Numbers of the tapped rows of one place."""
    heads: int
    feed_forward: int
    epsilon: float
    base: float
    """Base of the rotary embedding."""


class Norm(nn.Module):
    """Root-mean-square norm."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, rows: Tensor) -> Tensor:
        """Return normed rows."""
        return functional.rms_norm(rows, self.weight.shape, self.weight, self.epsilon)


class Head(nn.Module):
    """The head. Its output matrix is the target's, cut to some tokens, and is not trained."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, inner = shape.width, shape.feed_forward
        self.shape = shape
        self.register_buffer("scale", torch.ones(shape.rows), persistent=False)
        self.fc = nn.Linear(shape.rows, width, bias=False)
        self.attn_norm, self.attn_norm_2 = Norm(width, shape.epsilon), Norm(width, shape.epsilon)
        self.attn_q, self.attn_k, self.attn_v = (nn.Linear(2 * width, width, bias=False) for _ in range(3))
        self.attn_output = nn.Linear(width, width, bias=False)
        self.ffn_norm = Norm(width, shape.epsilon)
        self.ffn_gate, self.ffn_up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.ffn_down = nn.Linear(inner, width, bias=False)
        self.output_norm = Norm(width, shape.epsilon)

    def start(self, of_rows: Tensor, of_embedding: Tensor, scale: Tensor, output: float) -> None:
        """Begin with a closed-form solution; `scale` is the size of each tapped number, `output` that of a last row."""
        width = self.shape.width
        with torch.no_grad():
            self.scale.copy_(scale)
            self.fc.weight.copy_(of_rows * scale)
            for matrix in (self.attn_q, self.attn_k):
                matrix.weight.normal_(std=0.01)
                # Each token finds itself, and is not so sure of it that nothing can be learnt.
                matrix.weight[:, :width] += torch.eye(width)
            self.attn_v.weight.copy_(torch.cat((of_embedding, torch.zeros(width, width)), dim=1))
            self.attn_output.weight.copy_(torch.eye(width))
            for matrix in (self.ffn_gate, self.ffn_up):
                matrix.weight.normal_(std=0.03)
            self.ffn_down.weight.zero_()
            self.output_norm.weight.fill_(output)

    def forward(self, embedded: Tensor, rows: Tensor, steps: int) -> list[Tensor]:
        """Return the rows before the output matrix of each step, each of shape (batch, places, width).

        `embedded` are the embeddings of the tokens of the pairs, `rows` the tapped rows. Step s (from 0) at place q
        predicts as the head does that drafted the last s tokens before q itself.
        """
        hidden, tokens = self.fc(rows / self.scale), self.attn_norm(embedded)
        places = embedded.shape[1]
        turn = _turns(places, self.shape, embedded.device)
        before: list[tuple[Tensor, Tensor]] = []
        found = []
        for step in range(steps):
            both = torch.cat((tokens, self.attn_norm_2(hidden)), dim=-1)
            query, key, value = (self._split(matrix(both)) for matrix in (self.attn_q, self.attn_k, self.attn_v))
            query, key = _turned(query, turn), _turned(key, turn)
            before.append((key, value))
            attended = self.attn_output(self._attend(query, before, step).flatten(2))
            inner = hidden + attended
            normed = self.ffn_norm(inner)
            hidden = inner + self.ffn_down(functional.silu(self.ffn_gate(normed)) * self.ffn_up(normed))
            found.append(self.output_norm(hidden))
            # The next pair's row is what was returned one place before.
            hidden = functional.pad(hidden[:, :-1], (0, 0, 1, 0))
        return found

    def _split(self, rows: Tensor) -> Tensor:
        return rows.unflatten(-1, (self.shape.heads, -1)).transpose(1, 2)

    def _attend(self, query: Tensor, before: list[tuple[Tensor, Tensor]], step: int) -> Tensor:
        """Attend to fused pairs up to `step` places back, and to own ones of each further step after those."""
        key, value = before[0]
        places, size = query.shape[2], query.shape[3]
        allowed = torch.ones(places, places, dtype=torch.bool, device=query.device).tril(-step)
        scores = (query @ key.transpose(2, 3)) / size**0.5
        scores = [scores.masked_fill(~allowed, -1e9)]
        values = []
        for number, (own_key, own_value) in enumerate(before[1:], start=1):
            back = step - number
            own_key, own_value = (functional.pad(each, (0, 0, back, 0))[:, :, :places] for each in (own_key, own_value))
            scores.append((query * own_key).sum(-1, keepdim=True) / size**0.5)
            values.append(own_value)
        weights = torch.cat(scores, dim=-1).softmax(-1)
        found = weights[..., :places] @ value
        for number, own_value in enumerate(values):
            found = found + weights[..., places + number, None] * own_value
        return found.transpose(1, 2)


def _turns(places: int, shape: Shape, device: torch.device) -> tuple[Tensor, Tensor]:
    size = shape.width // shape.heads
    rates = shape.base ** (-torch.arange(0, size, 2, device=device) / size)
    angles = torch.arange(places, device=device)[:, None] * rates
    return angles.cos(), angles.sin()


def _turned(rows: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Turn neighbouring numbers by their place: llama.cpp's NORM kind of rotary embedding."""
    cos, sin = turn
    even, odd = rows[..., 0::2], rows[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
