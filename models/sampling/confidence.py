"""Confidence of a row of logits in a token, 0 to 1, for the acceptance statistics."""

import numpy as np
from numpy.typing import NDArray

from models.sampling.truncation import GRID


def share(row: NDArray[np.float32], token: int) -> float:
    """Return the approximate probability, 0 to 1, of a token before temperature and cuts.

    `row`: logits, shape (vocabulary,). Counted against column maxima, as in `models.sampling.truncation`: a twentieth
    of the time of a whole softmax, and never under the truth for the likeliest token. Good enough to learn from, not to
    sample from.
    """
    width = len(row) // GRID
    peaks = row[: GRID * width].reshape(GRID, width).max(axis=0) if width else row[:0]
    rivals = np.exp(np.append(peaks, row[GRID * width :]) - row[token])
    return float(1 / max(1.0, rivals.sum(dtype=np.float64)))
