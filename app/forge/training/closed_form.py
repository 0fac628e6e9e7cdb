"""Closed-form start of an EAGLE-3 head: what training begins with, from some thousand tokens and numpy alone.

The best linear prediction, by ridge regression, of the target's last hidden row one token later, from the tapped rows
and the embedding of the pending token. Multiplied with the target's own output matrix it predicts the token after the
pending one. The part of the rows becomes the matrix that fuses them; the part of the embedding the values of an
attention in which each token attends mostly to itself.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.forge.answering.answers import CONTEXT, Answer
from models.abort import AbortFlag
from models.llama.bindings import llama_cpp
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

Matrix = NDArray[np.float32]
PASS = 64
"""Tokens of a pass, each with a row of logits: llama.cpp gives a last hidden row for those alone."""
_RIDGE = 1e-3
"""Weight of the penalty, of the mean square of the features."""


class _LastRows:
    """Listener that keeps the last hidden row of each token."""

    def __init__(self, model: LlamaModel) -> None:
        self._width = model.row_width
        self.rows: list[Matrix] = []
        llama_cpp().llama_set_embeddings(model.handles[1], True)
        model.listeners.add(self)

    def take(self, context: Any, start: int, place: int, count: int) -> None:  # noqa: ARG002
        """Copy the rows of a pass."""
        pointer = llama_cpp().llama_get_embeddings(context)
        self.rows.append(np.ctypeslib.as_array(pointer, shape=(place + count, self._width))[place:].copy())

    def skip(self, length: int) -> None:
        """Do nothing: texts here grow by passes alone."""

    def leave_context(self) -> None:
        """Do nothing: it holds nothing of a context."""

    def join_context(self) -> None:
        """Do nothing: the context stays."""


def last_rows(path: Path, answers: Iterable[Answer], abort: AbortFlag, threads: int = 0) -> list[Matrix]:
    """Return a target's last hidden rows after each token of some answers; raises LocalspecError and Cancelled."""
    options = LlamaOptions(context_size=CONTEXT, max_rows=PASS, threads=threads, batch_threads=threads)
    model = LlamaModel(path, options, abort=abort)
    try:
        kept, found = _LastRows(model), list[Matrix]()
        for answer in answers:
            model.rewind(0)
            kept.rows.clear()
            tokens = answer.tokens.tolist()
            for start in range(0, len(tokens), PASS):
                part = tokens[start : start + PASS]
                model.decode(part, len(part))
            found.append(np.concatenate(kept.rows))
        return found
    finally:
        model.close()


def normed(rows: Matrix) -> Matrix:
    """Return rows whose mean square is 1, as the head's norms make them."""
    scaled: Matrix = rows / np.sqrt(np.mean(rows**2, axis=-1, keepdims=True) + 1e-5)
    return scaled


def closed_form(answers: list[Answer], hidden: list[Matrix], embedding: Matrix) -> tuple[Matrix, Matrix]:
    """Return the matrices of rows and of embedding, shapes (width, layers * width) and (width, width).

    The first token is left out: rows there are unlike all others.
    """
    rows = np.concatenate([answer.rows[1:-1] for answer in answers]).astype(np.float32)
    pending = np.concatenate([answer.tokens[2:] for answer in answers])
    wanted = np.concatenate([each[2:] for each in hidden])
    both = np.concatenate((rows, normed(embedding[pending])), axis=1)
    matrix = regression(both, wanted)
    return matrix[:, : rows.shape[1]], matrix[:, rows.shape[1] :]


def regression(features: Matrix, wanted: Matrix) -> Matrix:
    """Return the matrix, (columns of `wanted`, columns of `features`), that predicts one from the other.

    The penalty is on columns of equal size, so that large ones do not hide what small ones tell.
    """
    scale = np.sqrt(np.mean(features**2, axis=0, dtype=np.float64)) + 1e-6
    x, y = features / scale, wanted.astype(np.float64)
    gram = x.T @ x
    gram[np.diag_indices_from(gram)] += _RIDGE * len(x)
    solved: Matrix = (np.linalg.solve(gram, x.T @ y).T / scale).astype(np.float32)
    return solved
