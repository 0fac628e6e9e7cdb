"""Arithmetic of a benchmark: quantiles, means of ratios, bootstrap intervals, the oracle. Pure functions."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from app.bench.measuring.goodness_of_fit import student_width

RESAMPLES = 2000
_NORMAL = 1.96
"""Standard errors on each side of the mean that cover 95 % of the normal distribution."""
_SEED = 20
"""Seed of the resampling: equal records give equal intervals."""
_WINDOW = 8
"""Tokens over which a gap is averaged: the tokens of a round arrive at once."""


def geometric_mean(ratios: Iterable[float]) -> float | None:
    """Return the geometric mean, the mean that treats 2x and 0.5x alike; None without ratios."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which this share of the values lies, interpolated; None without values."""
    return float(np.quantile(values, share)) if values else None


def interval(groups: Sequence[Sequence[float]], resamples: int = RESAMPLES) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of the geometric mean, over groups, of their geometric means.

    Each resample draws, with replacement, as many ratios from each group as it has. For few values that interval is too
    narrow: resamples spread less than the values, and their quantiles are not Student's (Hesterberg 2015). So it is
    stretched by both factors. None where a group has fewer than two ratios.
    """
    if not groups or any(len(group) < 2 for group in groups):
        return None
    dice = np.random.default_rng(_SEED)
    means = np.zeros(resamples)
    for group in groups:
        logs = np.log(np.asarray(group, np.float64))
        means += logs[dice.integers(len(logs), size=(resamples, len(logs)))].mean(axis=1) / len(groups)
    low, high = np.quantile(means, [0.025, 0.975])
    middle = sum(np.log(group).mean() for group in groups) / len(groups)
    stretch = _stretch(groups)
    return float(np.exp(middle + stretch * (low - middle))), float(np.exp(middle + stretch * (high - middle)))


def _stretch(groups: Sequence[Sequence[float]]) -> float:
    """Return the factor by which a percentile interval is too narrow: 1 for many, 1.2 for twelve, 1.9 for four."""
    values = sum(len(group) for group in groups)
    freedom = values - len(groups)
    return student_width(freedom) / _NORMAL * math.sqrt(values / freedom)


def gaps(rounds: Sequence[tuple[float, int]], window: int = _WINDOW) -> list[float]:
    """Return the seconds for each token, averaged over every `window` consecutive tokens of an answer.

    `rounds` are seconds and tokens of each round. The first round is left out: its time counts as time to first token.
    An answer shorter than the window gives one average over all of it, or none.
    """
    ends = np.cumsum([seconds for seconds, _ in rounds[1:]])
    arrivals = [0.0]
    for end, (_, tokens) in zip(ends, rounds[1:], strict=True):
        arrivals += [float(end)] * tokens
    window = min(window, len(arrivals) - 1)
    if window == 0:
        return []
    return [(late - early) / window for early, late in zip(arrivals, arrivals[window:], strict=False)]


def oracle_speed_up(tokens: int, widest: int, cost: Callable[[int], float]) -> float:
    """Return the speed-up over plain decoding of an oracle: a drafter that knows the answer and takes no time.

    `cost(w)` is the time of a pass over w tokens, which emits all of them. The cheapest sum of passes of at most
    `widest` tokens for `tokens` tokens is found exactly (dynamic programme), since the curve is jagged.
    """
    measured_costs = [cost(width) for width in range(1, min(widest, tokens) + 1)]
    best = [0.0]
    for length in range(1, tokens + 1):
        best.append(
            min(
                measured_cost + best[length - width]
                for width, measured_cost in enumerate(measured_costs[:length], start=1)
            )
        )
    return tokens * cost(1) / best[tokens]
