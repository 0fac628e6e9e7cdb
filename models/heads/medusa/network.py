"""Network of a Medusa file: K heads that turn one hidden row of the target into the rows of K places to come.

Head k (from 1) has two matrices of the width's size: A(k) h + SiLU(W(k) h + b(k)) stands for the target's hidden row k
places later. In the paper A is the identity; here it is where the closed form begins. All rows then go through those
rows of the target's own output matrix whose tokens can be drafted, in one product.

Source: Medusa (Cai et al. 2024, arXiv 2401.10774).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.errors import ModelFileError
from models.gguf.block_heads import MEDUSA
from models.gguf.header import read_header
from models.heads.medusa.product import Product
from models.heads.medusa.stored import StoredMatrix, stored_matrix, stored_numbers

Row = NDArray[np.float32]
MATRICES, BIASES, NORM, KEPT = "heads.weight", "heads.bias", "output_norm.weight", "d2t"
"""Tensors of the file. Rows of the first are A(1), W(1), A(2), W(2) and so on."""
OUTPUTS = ("output.weight", "token_embd.weight")
"""Names of the output matrix in a target's file: the second where it has one matrix for both."""


@dataclass(frozen=True, slots=True)
class MedusaTensors:
    """Tensors of K heads for rows of E numbers, with N tokens that they can draft."""

    heads: StoredMatrix
    """Matrices of the heads, 2 * K * E rows."""
    biases: Row
    """Shape (K, E)."""
    norm: Row
    """Weights of the target's last norm, shape (E,)."""
    epsilon: float
    scale: float
    """Factor of the logits."""
    kept: NDArray[np.int64]
    """Tokens that can be drafted, shape (N,), ascending."""
    output: StoredMatrix
    """Their rows of the target's output matrix."""


def read_tensors(path: Path, target: Path, width: int) -> MedusaTensors:
    """Read the heads in a file, with their rows of a target's output matrix; raises ModelFileError for a bad file."""
    heads, biases = stored_matrix(path, MATRICES), stored_numbers(path, BIASES)
    norm, kept = stored_numbers(path, NORM), stored_numbers(path, KEPT).astype(np.int64)
    output = stored_matrix(target, *OUTPUTS)
    if not np.all((kept >= 0) & (kept < len(output.blocks))):
        raise ModelFileError(
            f"{path.name} is damaged.",
            cause=f"It drafts the token {int(kept.max())}; the target has {len(output.blocks):,}.",
            hint="Make it again with localspec forge.",
        )
    return MedusaTensors(
        heads,
        np.array(biases, np.float32).reshape(-1, width),
        np.array(norm, np.float32),
        _number(path, "attention.layer_norm_rms_epsilon", 1e-5),
        _number(path, "logit_scale", 1.0),
        kept,
        output.chosen(kept),
    )


def _number(path: Path, key: str, usual: float) -> float:
    value = read_header(path).values.get(f"{MEDUSA}.{key}")
    return float(value) if isinstance(value, int | float) else usual


class MedusaNetwork:
    """Heads in memory, with the output rows that they need. Belongs to one thread; freed by `close`."""

    def __init__(self, tensors: MedusaTensors) -> None:
        """Copy the tensors; raises LocalspecError for an engine without single products."""
        self.heads, self._width = tensors.biases.shape
        self._tensors = tensors
        self._matrices = Product(tensors.heads, 1)
        self._output = Product(tensors.output, self.heads)

    @property
    def kept(self) -> NDArray[np.int64]:
        """Tokens that can be drafted, shape (N,)."""
        return self._tensors.kept

    def logits(self, row: Row, places: Sequence[int], threads: int = 1) -> NDArray[np.float32]:
        """Return the logits of the kept tokens for some places, heads counted from 0; shape (places, N).

        `row` is what the target's last layer returned after a token, shape (E,). Place 0 is that of the token after
        the next one.
        """
        hidden = self._normed(row)
        count = max(places) + 1
        both = self._matrices.times(hidden[None], 2 * self._width * count, threads)
        linear, gate = both.reshape(count, 2, self._width).transpose(1, 0, 2)
        gate = gate + self._tensors.biases[:count]
        predicted = linear + gate / (1 + np.exp(-np.clip(gate, -60, 60)))
        return self._tensors.scale * self._output.times(predicted[list(places)], threads=threads)

    def _normed(self, row: Row) -> Row:
        size = np.sqrt(np.mean(np.square(row), dtype=np.float64) + self._tensors.epsilon)
        normed: Row = (row / size * self._tensors.norm).astype(np.float32)
        return normed

    def close(self) -> None:
        """Free the matrices; calling it twice is fine."""
        self._matrices.close()
        self._output.close()
