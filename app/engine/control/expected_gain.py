"""Expected gain of a draft, in tokens: the rule that decides every draft length.

A round that verifies n draft tokens emits 1 + P_1 + ... + P_n tokens on average, where P_i is the chance that the
first i are all accepted. It takes T(n + 1) seconds and those of the drafter. At a throughput of lambda tokens a second
a second costs lambda tokens, so the best n maximises

    (1 + P_1 + ... + P_n) - lambda (T(n + 1) + draft seconds)

n = 0, plain decoding, is one of the candidates, so switching off is no special case. (Renewal reward, Dinkelbach 1967;
lambda is the achieved throughput, not that of plain decoding.) Every n is compared, as T is jagged: four tokens can
cost cost less than three.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul

from app.engine.constants import MARGIN, NEARLY_FREE
from app.engine.costs.pass_cost import VerifyCurve

_HALVINGS = 20

Seconds = Callable[[int], float]
"""Seconds of a drafter as a function of the draft length."""


def no_time(length: int) -> float:  # noqa: ARG001
    """Return 0.0, the seconds of a draft that already exists."""
    return 0.0


def best_length(
    chances: Sequence[float], curve: VerifyCurve, throughput: float, draft_seconds: Seconds = no_time
) -> tuple[int, float]:
    """Return the draft length with the largest expected gain, and that gain in tokens; (0, 0.0) for none.

    `chances[i]` is the acceptance probability of token i given the ones before; `throughput` is in tokens a second.
    """
    after = curve.aftermath - curve.seconds(1)
    best, best_gain, least = 0, MARGIN, throughput * (curve.least + after)
    extra, longest = 0.0, len(chances)
    for n, prefix in enumerate(accumulate(chances, mul), start=1):
        extra += prefix
        gain = extra - throughput * (curve.seconds(n + 1) + after + draft_seconds(n))
        if gain > best_gain:
            best, best_gain = n, gain
        # Later tokens could not gain more, even if each were as likely as this one and in the cheapest pass.
        if extra + prefix * (longest - n) - least <= best_gain:
            break
    return (best, best_gain) if best else (0, 0.0)


def best_rate(chances: Sequence[float], curve: VerifyCurve, draft_seconds: Seconds = no_time) -> float:
    """Return the tokens a second of rounds that all draft the best length; at least those of plain decoding."""
    tokens, best = 1.0, 1 / curve.seconds(1)
    for n, prefix in enumerate(accumulate(chances, mul), start=1):
        tokens += prefix
        best = max(best, tokens / (curve.seconds(n + 1) + curve.aftermath + draft_seconds(n)))
    return best


def can_pay(longest: int, curve: VerifyCurve, throughput: float, draft_seconds: Seconds) -> bool:
    """Tell whether a draft that is always accepted would pay off."""
    return any(n - throughput * (curve.extra(n + 1) + draft_seconds(n)) > MARGIN for n in range(1, longest + 1))


def worth_of_rest(
    chances: Sequence[float], curve: VerifyCurve, throughput: float, draft_seconds: Seconds, tokens: float
) -> tuple[int, float]:
    """Return the best draft length, and the gain of such drafts until the given number of tokens is emitted."""
    length, gain = best_length(chances, curve, throughput, draft_seconds)
    emitted = 1 + sum(accumulate(chances[:length], mul))
    return length, gain * tokens / emitted


def affordable(
    longest: int, cost: Callable[[int], float], lower_bounds: Sequence[float], budget: float, trust: float
) -> int:
    """Return the longest draft that a budget in tokens allows to verify; 0 for none.

    `cost(n)` is the extra time of a round with n draft tokens over a plain one, in tokens: the loss if all of them are
    rejected. `lower_bounds[i]` is the lower bound of token i's acceptance probability, 0 beyond the list. The expected
    loss by these bounds stays within the budget, and the largest possible loss at most `trust` above it.
    """
    proven = [*lower_bounds[:longest], *[0.0] * (longest - len(lower_bounds))]
    gained = [*accumulate(accumulate(proven, mul))]
    return next((n for n in range(longest, 0, -1) if cost(n) - min(gained[n - 1], trust) <= budget), 0)


def best_siblings(
    chances: Sequence[float],
    places: Sequence[int],
    sibling_chance: float,
    curve: VerifyCurve,
    throughput: float,
    room: int,
) -> tuple[int, ...]:
    """Return the places of a draft where a sibling is worth its row, ascending, at most `room` of them.

    `places` are the places with a sibling. `sibling_chance` is the acceptance probability of a sibling whose first
    choice was rejected. An accepted sibling saves the pass of one token, but is read again in the next round: its row
    leaves nothing in the cache.
    """
    one = curve.seconds(1)
    worth = sibling_chance * (1 - throughput * (curve.seconds(2) - one))
    reached = [*accumulate(chances, mul, initial=1.0)]
    gains = [(reached[place] * (1 - chances[place]) * worth, place) for place in places]
    gains.sort(reverse=True)
    n, best, best_gain, extra = len(chances), 0, MARGIN, 0.0
    for count, (gain, _) in enumerate(gains[:room], start=1):
        extra += gain
        gained = extra - throughput * (curve.seconds(n + count + 1) - curve.seconds(n + 1))
        if gained > best_gain:
            best, best_gain = count, gained
    return tuple(sorted(place for _, place in gains[:best]))


def best_size(gains: Sequence[float], curve: VerifyCurve, throughput: float) -> int:
    """Return how many tokens of a tree to verify, the first ones of those ranked; 0: none.

    `gains` are the tokens that each of them is expected to add to the round.
    """
    after = curve.aftermath - curve.seconds(1)
    best, best_gain, extra = 0, MARGIN, 0.0
    for n, gain in enumerate(gains, start=1):
        extra += gain
        gained = extra - throughput * (curve.seconds(n + 1) + after)
        if gained > best_gain:
            best, best_gain = n, gained
    return best


def nearly_free(longest: int, curve: VerifyCurve) -> int:
    """Return the longest draft whose pass takes hardly more time than that of one token; 0 for none."""
    most = (1 + NEARLY_FREE) * curve.seconds(1) - curve.aftermath
    return next((n for n in range(longest, 0, -1) if curve.seconds(1 + n) <= most), 0)


def break_even(longest: int, curve: VerifyCurve, throughput: float, draft_seconds: Seconds = no_time) -> float | None:
    """Return the acceptance probability for each token above which drafting pays off; None where it never does."""
    low, high = 0.0, 1.0
    if not can_pay(longest, curve, throughput, draft_seconds):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if best_length([middle] * longest, curve, throughput, draft_seconds)[0] == 0:
            low = middle
        else:
            high = middle
    return high
