"""Closed-form start of Medusa heads, by ridge regression with numpy: what training begins with.

For head k the best linear prediction of the target's last hidden row k tokens later. Multiplied with the target's own
output matrix it predicts the draft token at that place.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from app.forge.answering.answers import Answer

Matrix = NDArray[np.float32]
_RIDGE = 1e-2
"""Weight of the penalty, of the mean square of the numbers of a row."""


def normed(rows: NDArray[np.float16], norm: Matrix, epsilon: float) -> Matrix:
    """Return a target's last hidden rows after its last norm, from what its last layer returned; shape (n, width)."""
    numbers = rows.astype(np.float32)
    scale = np.sqrt(np.mean(numbers**2, axis=-1, keepdims=True) + epsilon)
    found: Matrix = numbers / scale * norm
    return found


def answered_rows(answer: Answer) -> NDArray[np.float16]:
    """Return the rows that an answer has: from the prompt's last token on, shape (n - asked + 1, width)."""
    return answer.rows[answer.asked - 1 :]


def size_of(rows: Sequence[Matrix]) -> float:
    """Return the root mean square of the numbers of rows."""
    return float(np.sqrt(np.mean([np.mean(each**2) for each in rows]))) or 1.0


def closed_form(rows: Sequence[Matrix], heads: int) -> Matrix:
    """Return the matrices of all heads, shape (heads, width, width), from the rows of answers; see `answered_rows`.

    Heads that no answer is long enough for are zero.
    """
    width = rows[0].shape[1]
    found = np.zeros((heads, width, width), np.float32)
    for head in range(heads):
        before, after = (np.concatenate(each) for each in zip(*_shifted(rows, head + 1), strict=True))
        gram = before.T @ before
        if len(before):
            gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / width + 1e-6
            found[head] = np.linalg.solve(gram.astype(np.float64), (before.T @ after).astype(np.float64)).T
    return found


def _shifted(rows: Sequence[Matrix], by: int) -> Iterator[tuple[Matrix, Matrix]]:
    for each in rows:
        yield each[: max(0, len(each) - by)], each[by:]


def named_right(rows: Matrix, likeliest: NDArray[np.int32], output: Matrix, kept: NDArray[np.int64]) -> float:
    """Return the share of rows that the output matrix turns into the token that the target had as its likeliest.

    `output` has the rows of the tokens `kept`; others are left out of the count. 1 where no row counts.
    """
    counts = np.isin(likeliest, kept)
    if not counts.any():
        return 1.0
    named = kept[(rows[counts] @ output.T).argmax(1)]
    return float(np.mean(named == likeliest[counts]))
