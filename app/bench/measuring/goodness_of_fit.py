"""Goodness of fit of counts to probabilities: tests and bounds as arithmetic, without models and tokens.

    cells       counts of outcomes beside their chances; rare outcomes share one cell
    chi-square  sum of (observed - expected)^2 / expected
    G           twice the log-likelihood ratio, 2 sum of observed log(observed / expected)
    distance    total variation: half the sum of all differences, the most by which any event's chances differ

p-values are tails of the chi-square distribution. Those that look suspicious are replaced by Monte-Carlo ones, which
hold for any counts, however small (Davison and Hinkley 1997, 4.2): what is said against a drafter rests on these alone.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

LEAST = 5
"""Expected counts below this share a cell: the chi-square distribution is no good there."""
CONFIDENCE = 0.99
"""Confidence of all bounds."""
_SUSPICIOUS = 0.01
"""p-values below this are computed again by Monte Carlo."""
_AT_ONCE = 1 << 22
"""Counts drawn at once: each takes 24 bytes, and there can be 50,000 cells."""
_STEPS = 100_000
_TINY = 1e-300
_PRECISION = 1e-15
_Outcome = TypeVar("_Outcome", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Cells:
    """Counts of outcomes and their expected probabilities, which cover every outcome."""

    observed: NDArray[np.int64]
    """Shape (n,), n at least 2."""
    probs: NDArray[np.float64]
    """Shape (n,); they sum to 1."""

    @property
    def samples(self) -> int:
        """Sum of the counts."""
        return int(self.observed.sum())

    @property
    def expected(self) -> NDArray[np.float64]:
        """Return the expected counts."""
        return self.probs * self.samples


@dataclass(frozen=True, slots=True)
class Goodness:
    """Goodness of fit by two statistics."""

    samples: int
    cells: int
    chi_square: float
    chi_square_p: float
    """Probability of such a value, or a larger one, if the counts follow the expected probabilities."""
    g: float
    g_p: float


def pooled(counts: Mapping[_Outcome, int], probs: Mapping[_Outcome, float]) -> Cells | None:
    """Return the cells of these counts; outcomes expected less than five times, or not listed, share one cell.

    The choice of cells depends on the probabilities and the number of samples alone. None for fewer than two cells.
    """
    samples = sum(counts.values())
    chosen = [outcome for outcome, prob in probs.items() if prob * samples >= LEAST]
    if not chosen:
        return None
    observed = np.array([counts.get(outcome, 0) for outcome in chosen], np.int64)
    chances = np.array([probs[outcome] for outcome in chosen])
    others, rest = samples - observed.sum(), max(0.0, 1 - chances.sum())
    if rest * samples < LEAST:
        least = int(chances.argmin())
        observed[least] += others
        chances[least] += rest
    else:
        observed, chances = np.append(observed, others), np.append(chances, rest)
    return Cells(observed, chances / chances.sum()) if len(chances) > 1 else None


def goodness(groups: Sequence[Cells], draws: int, seed: int) -> Goodness | None:
    """Return the goodness of fit of several groups of counts together; None without any cells.

    `draws` is the number of Monte-Carlo draws for a suspicious value: no such p is below 1 / (draws + 1).
    """
    if not groups:
        return None
    freedom = sum(len(cells.probs) - 1 for cells in groups)
    values = [sum(float(form(cells.observed, cells.expected)) for cells in groups) for form in (_chi_square, _g)]
    tails = [chi_square_tail(value, freedom) for value in values]
    if min(tails) < _SUSPICIOUS:
        tails = _monte_carlo(groups, values, draws, seed)
    samples, count = sum(cells.samples for cells in groups), sum(len(cells.probs) for cells in groups)
    return Goodness(samples, count, values[0], tails[0], values[1], tails[1])


def _chi_square(observed: NDArray[np.int64], expected: NDArray[np.float64]) -> Any:
    return ((observed - expected) ** 2 / expected).sum(axis=-1)


def _g(observed: NDArray[np.int64], expected: NDArray[np.float64]) -> Any:
    return 2 * (observed * np.log(np.maximum(observed, 1) / expected)).sum(axis=-1)


def _monte_carlo(groups: Sequence[Cells], values: Sequence[float], draws: int, seed: int) -> list[float]:
    """Return the share of drawn counts, the observed ones among them, whose statistics are at least as large."""
    random = np.random.default_rng(seed)
    drawn = np.zeros((2, draws))
    for cells in groups:
        rows = max(1, _AT_ONCE // len(cells.probs))
        for start in range(0, draws, rows):
            counts = random.multinomial(cells.samples, cells.probs, size=min(rows, draws - start))
            drawn[:, start : start + rows] += (_chi_square(counts, cells.expected), _g(counts, cells.expected))
    # Equal counts summed in another order may differ by rounding, and must still count as equal.
    reached = (drawn >= np.array(values)[:, np.newaxis] * (1 - 1e-12)).sum(axis=1)
    return [(int(count) + 1) / (draws + 1) for count in reached]


def holm(p_values: Mapping[_Outcome, float], level: float) -> list[_Outcome]:
    """Return the outcomes whose p-values are significant, smallest first (Holm 1979).

    If every hypothesis holds, the probability that any is returned is `level` at most, whatever their dependence.
    """
    ordered = sorted(p_values, key=lambda name: p_values[name])
    for place, name in enumerate(ordered):
        if p_values[name] > level / (len(ordered) - place):
            return ordered[:place]
    return ordered


def distance(counts: Mapping[_Outcome, int], probs: Mapping[_Outcome, float], rest: float = 0.0) -> float:
    """Return the total variation distance of the shares of these counts from chances.

    Outcomes that are not listed count as one, whose chance is `rest`.
    """
    samples = sum(counts.values())
    more = sum(max(0.0, counts[outcome] / samples - probs[outcome]) for outcome in counts if outcome in probs)
    others = sum(count for outcome, count in counts.items() if outcome not in probs)
    return more + max(0.0, others / samples - rest)


def distance_bound(measured: float, samples: int) -> float:
    """Return the upper bound, with 99 % confidence, of the distance of q from p.

    `measured` is the distance from p of the shares s of independent samples of q. These may come from several q, each
    compared with its own p; then it is the average, weighted by the samples of each.
    """
    # TV(q, p) <= E TV(s, p), as q is the mean of s and the distance is convex (Jensen).
    # A sample moves TV(s, p) by 1/N at most: it is more than t below its mean with chance exp(-2 N t^2) (McDiarmid).
    return min(1.0, measured + math.sqrt(math.log(1 / (1 - CONFIDENCE)) / (2 * samples)))


def chance_bound(hits: int, trials: int) -> float:
    """Return the upper bound, with 99 % confidence, of a probability after `hits` hits (Clopper and Pearson 1934).

    The probability may vary between trials: the bound holds for the average (Hoeffding 1956).
    """
    return 1.0 if hits == trials else _root(lambda chance: binomial_tail(hits + 1, trials, chance) - CONFIDENCE)


def chance_interval(hits: int, trials: int) -> tuple[float, float]:
    """Return the 99 % interval of Clopper and Pearson for a probability after `hits` hits in `trials` trials."""
    beyond = (1 - CONFIDENCE) / 2
    low = 0.0 if hits == 0 else _root(lambda chance: binomial_tail(hits, trials, chance) - beyond)
    high = 1.0 if hits == trials else _root(lambda chance: binomial_tail(hits + 1, trials, chance) - (1 - beyond))
    return low, high


def binomial_p(hits: int, trials: int, chance: float) -> float:
    """Return the two-sided p-value of so many hits: twice the smaller tail, at most 1."""
    chance = min(1.0, max(0.0, chance))
    at_least = binomial_tail(hits, trials, chance)
    at_most = binomial_tail(trials - hits, trials, 1 - chance)
    return min(1.0, 2 * min(at_least, at_most))


def binomial_tail(hits: int, trials: int, chance: float) -> float:
    """Return the probability of at least `hits` hits."""
    if hits <= 0:
        return 1.0
    return 0.0 if hits > trials else beta_share(chance, hits, trials - hits + 1)


def student_width(freedom: int) -> float:
    """Return the standard errors on each side of the mean that cover 95 % of Student's t distribution."""
    share = _root(lambda x: beta_share(x, freedom / 2, 0.5) - 0.05)
    return math.sqrt(freedom * (1 - share) / share)


def _root(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high


def chi_square_tail(value: float, freedom: int) -> float:
    """Return the probability that the chi-square distribution exceeds a value."""
    return gamma_tail(freedom / 2, value / 2)


def gamma_tail(shape: float, x: float) -> float:
    """Return the regularised upper incomplete gamma function: a series below the mean, a fraction above it."""
    if x <= 0:
        return 1.0
    scale = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    return 1 - scale * _gamma_series(shape, x) if x < shape + 1 else scale * _gamma_fraction(shape, x)


def _gamma_series(shape: float, x: float) -> float:
    term = total = 1 / shape
    for step in range(1, _STEPS):
        term *= x / (shape + step)
        total += term
        if term < total * _PRECISION:
            break
    return total


def _gamma_fraction(shape: float, x: float) -> float:
    def terms(step: int) -> tuple[float, float]:
        return step * (shape - step), x - shape + 1 + 2 * step

    return 1 / _fraction(x - shape + 1, terms)


def beta_share(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, by the fraction that is quick on its side of the mean."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    scale = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return scale / (a * _beta_fraction(x, a, b))
    return 1 - scale / (b * _beta_fraction(1 - x, b, a))


def _beta_fraction(x: float, a: float, b: float) -> float:
    def terms(step: int) -> tuple[float, float]:
        half = step // 2
        if step % 2:
            return -(a + half) * (a + b + half) * x / ((a + step - 1) * (a + step)), 1.0
        return half * (b - half) * x / ((a + step - 1) * (a + step)), 1.0

    return _fraction(1.0, terms)


def _fraction(first: float, terms: Callable[[int], tuple[float, float]]) -> float:
    """Return first + n1/(d1 + n2/(d2 + ...)), where terms(i) is (ni, di), by Lentz's method."""
    value = upper = first or _TINY
    lower = 0.0
    for step in range(1, _STEPS):
        numerator, denominator = terms(step)
        lower = 1 / (denominator + numerator * lower or _TINY)
        upper = denominator + numerator / upper or _TINY
        value *= upper * lower
        if abs(upper * lower - 1) < _PRECISION:
            break
    return value
