"""Counts against theory: exact bounds of a share, and how unlikely a table of counts is."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

ONE_IN_A_MILLION = 1e-6
"""Seeds are fixed, so a test that passes goes on passing; this is how unlikely it was that right code failed it."""
_HALVINGS = 60
_FEWEST = 5.0
"""Expected counts below this are pooled: the chi-square law does not hold for them."""


def bounds(hits: int, trials: int, error: float = ONE_IN_A_MILLION) -> tuple[float, float]:
    """Return the shares between which the true one is, but for a chance of `error` (Clopper and Pearson 1934)."""
    low = 0.0 if hits == 0 else _share_at(trials, hits, error / 2)
    high = 1.0 if hits == trials else 1 - _share_at(trials, trials - hits, error / 2)
    return low, high


def fits(hits: int, trials: int, share: float) -> bool:
    """Return whether a count is what this share would lead to, but for one time in a million."""
    low, high = bounds(hits, trials)
    return low <= share <= high


def _share_at(trials: int, hits: int, wanted: float) -> float:
    """Return the share for which `hits` or more of the trials have the chance wanted."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_least(hits, trials, middle) < wanted else (low, middle)
    return low


def _at_least(hits: int, trials: int, share: float) -> float:
    """Return the chance of `hits` or more; summed as logarithms, since its terms are far below the smallest float."""
    if not 0 < share < 1:
        return share
    factorials = _log_factorials(trials)
    counts = np.arange(hits, trials + 1)
    terms = factorials[trials] - factorials[counts] - factorials[trials - counts]
    terms = terms + counts * math.log(share) + (trials - counts) * math.log1p(-share)
    return float(np.exp(terms - terms.max()).sum() * math.exp(terms.max()))


@lru_cache
def _log_factorials(largest: int) -> NDArray[np.float64]:
    return np.concatenate(([0.0], np.log(np.arange(1, largest + 1)).cumsum()))


def misfit(counts: Mapping[Hashable, int], chances: Mapping[Hashable, float]) -> float:
    """Return how likely counts at least as odd as these are, if these are the chances of the cells: chi-square."""
    trials = sum(counts.values())
    if any(chances.get(cell, 0) == 0 for cell, count in counts.items() if count):
        return 0.0
    cells: Counter[Hashable] = Counter()
    expected: dict[Hashable, float] = {}
    for cell, chance in chances.items():
        pool = cell if chance * trials >= _FEWEST else "pooled"
        cells[pool] += counts.get(cell, 0)
        expected[pool] = expected.get(pool, 0.0) + chance * trials
    distance = sum((cells[cell] - mean) ** 2 / mean for cell, mean in expected.items() if mean > 0)
    return chi_square_tail(distance, len(expected) - 1)


def chi_square_tail(distance: float, freedom: int) -> float:
    """Return the chance that a chi-square variable is larger: the closed forms for whole degrees of freedom."""
    half = distance / 2
    if half == 0:
        return 1.0
    start, tail = (0.5, math.erfc(math.sqrt(half))) if freedom % 2 else (1.0, math.exp(-half))
    # Each two degrees add the term half^a exp(-half) / gamma(a + 1).
    steps = range((freedom - 1) // 2)
    powers = [start + step for step in steps]
    return tail + sum(math.exp(power * math.log(half) - half - math.lgamma(power + 1)) for power in powers)
