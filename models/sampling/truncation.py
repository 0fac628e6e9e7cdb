"""Truncation of logits: top-k and top-p over 150,000 of them, without sorting them all."""

import numpy as np
from numpy.typing import NDArray

from models.errors import LocalspecError

GRID = 64
"""Rows of the grid whose column maxima bound the k-th largest logit; any number is right, this one is quick."""
_DEEPEST = 1e4
"""Nats below the largest logit where a search gives up on depth and takes everything."""


def top_k(row: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (ids, logits) of the k largest of a row, shape (vocabulary,): largest first, equal ones by id.

    All of them, by id, when k is 0; never one of -inf, which is ruled out. Raises LocalspecError for a row that is not
    numbers.
    """
    if k == 0:
        ids = _possible(row)
        return ids, (row if len(ids) == len(row) else row[ids]).astype(np.float64)
    ids = _at_least_top(row, k)
    logits = row[ids].astype(np.float64)
    order = np.argsort(-logits, kind="stable")[:k]
    return ids[order], logits[order]


def _at_least_top(row: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return, in order of id, k or more ids with the k largest logits among them.

    Laid out as a grid, each column's maximum is an entry, so the k-th largest maximum has k entries at or above it, all
    of them in columns that reach it: one pass over the row, where a partition of 150,000 logits costs four.
    """
    width = len(row) // GRID
    if width < k:
        return _possible(row)
    grid, rest = row[: GRID * width].reshape(GRID, width), row[GRID * width :]
    peaks = grid.max(axis=0)
    check_numbers(np.maximum(peaks.max(), rest.max(initial=-np.inf)))
    floor = np.partition(peaks, width - k)[width - k]
    if floor == -np.inf:
        return _possible(row)
    columns = np.flatnonzero(peaks >= floor)
    lines, places = np.divmod(np.flatnonzero(grid[:, columns] >= floor), len(columns))
    beyond = np.flatnonzero(rest >= floor) + GRID * width
    return np.concatenate((lines * width + columns[places], beyond))


def _possible(row: NDArray[np.float32]) -> NDArray[np.int64]:
    check_numbers(row.max())
    return np.arange(len(row)) if row.min() > -np.inf else np.flatnonzero(row > -np.inf)


def top_p(
    ids: NDArray[np.int64], logits: NDArray[np.float64], share: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Keep, of n candidates sorted by logit, those up to and including the one at which the weights sum to `share`.

    The weight of a logit is its exponential over that of the largest, so `share` is no probability but a sum of such:
    1 is the largest alone. Returns (ids, logits), the beginning of those given.
    """
    reached = np.exp(logits - logits[0]).cumsum()
    count = int(reached.searchsorted(share)) + 1
    return ids[:count], logits[:count]


def sorted_top(
    ids: NDArray[np.int64], logits: NDArray[np.float64], share: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (ids, logits), largest first: enough of n candidates in any order for `share`, as in `top_p`."""
    largest = logits.max()
    depth = 8.0
    chosen = np.flatnonzero(logits >= largest - depth)
    # Only the top few nats matter as a rule, and sorting all 150,000 would cost more than everything else together.
    while np.exp(logits[chosen] - largest).sum() < share and len(chosen) < len(ids):
        depth *= 2
        chosen = np.flatnonzero(logits >= largest - depth) if depth < _DEEPEST else np.arange(len(ids))
    chosen = chosen[np.argsort(-logits[chosen], kind="stable")]
    return ids[chosen], logits[chosen]


def check_numbers(largest: np.float32) -> None:
    """Raise LocalspecError unless the largest logit of a row, NaN if it has one, is a finite number."""
    if not np.isfinite(largest):
        raise LocalspecError(
            "The model returned NaN or infinity instead of numbers.",
            hint="The file may be damaged, or its quantisation may not work on this device: try another, or -ngl 0.",
        )
