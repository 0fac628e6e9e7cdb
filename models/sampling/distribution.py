"""Sparse distribution over tokens: the possible tokens and their probabilities.

The arithmetic is numpy's own, so it holds for float64 and just as well for exact fractions (dtype object): the rules of
acceptance are proved by running these very lines on fractions, with every path summed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Distribution:
    """Probabilities of tokens; one that is not listed has none."""

    ids: NDArray[np.int64]
    """Token ids, ascending, shape (n,)."""
    probs: NDArray[Any]
    """Their probabilities, shape (n,); they sum to 1."""

    def of(self, token: int) -> Any:
        """Return the probability of a token."""
        place = int(np.searchsorted(self.ids, token))
        return self.probs[place] if place < len(self.ids) and self.ids[place] == token else 0

    def at(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Return the probabilities of these tokens, in their order."""
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[places] == ids, self.probs[places], 0)

    def without(self, token: int) -> "Distribution | None":
        """Return what is left when a token can't come; None when nothing is."""
        kept = (self.ids != token) & (self.probs > 0)
        return normalised(self.ids[kept], self.probs[kept])


def one_hot(token: int) -> Distribution:
    """Return the distribution of a token that is certain."""
    # A whole number: it stays exact beside fractions, where 1.0 would turn them into floats.
    return Distribution(np.array([token]), np.array([1]))


def normalised(ids: NDArray[np.int64], weights: NDArray[Any]) -> Distribution | None:
    """Return the distribution in proportion to weights; None when they are all 0."""
    total = weights.sum() if len(weights) else 0
    return Distribution(ids, weights / total) if total > 0 else None


def excess(target: Distribution, draft: Distribution, scale: Any = 1) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return (ids, weights): how much of each token scale * target has over draft, where it has more."""
    weights = scale * target.probs - draft.at(target.ids)
    kept = weights > 0
    return target.ids[kept], weights[kept]
