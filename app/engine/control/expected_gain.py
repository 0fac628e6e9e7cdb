"""The expected gain of a draft, in tokens: the rule that decides every draft length.

A round that verifies n draft tokens emits 1 + P_1 + ... + P_n tokens on average, P_i being the chance that the first i
are all accepted, and takes T(n + 1) seconds, and the drafter's own. At a throughput of lambda, the tokens a second that
rounds achieve anyway, a second costs lambda tokens, and the best n maximises

    (1 + P_1 + ... + P_n) - lambda (T(n + 1) + draft seconds)

n = 0, plain decoding, is one of the candidates: switching off is no special case. (Renewal reward, Dinkelbach 1967; a
second costs what is achieved now, not what plain decoding would.) Every n is compared, as T is jagged: four tokens can
cost less than three.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul

from app.engine.costs.pass_cost import VerifyCurve

MARGIN = 0.03
"""Tokens that a draft must be worth more than none: estimates err, and plain decoding does not."""
_HALVINGS = 20

Seconds = Callable[[int], float]
"""Seconds that a drafter takes for a draft of so many tokens."""


def no_time(length: int) -> float:  # noqa: ARG001
    """Return the seconds of a draft that is already there."""
    return 0.0


def best_length(
    chances: Sequence[float], curve: VerifyCurve, throughput: float, draft_seconds: Seconds = no_time
) -> tuple[int, float]:
    """Return the draft length of most expected gain, and that gain over plain decoding in tokens; (0, 0.0) for none.

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
        # Were all that follow as likely as this one, and in the cheapest pass, they would not gain more.
        if extra + prefix * (longest - n) - least <= best_gain:
            break
    return (best, best_gain) if best else (0, 0.0)


def can_pay(longest: int, curve: VerifyCurve, throughput: float, draft_seconds: Seconds) -> bool:
    """Tell whether a draft that is always right would be worth its time."""
    return any(n - throughput * (curve.extra(n + 1) + draft_seconds(n)) > MARGIN for n in range(1, longest + 1))


def worth_of_rest(
    chances: Sequence[float], curve: VerifyCurve, throughput: float, draft_seconds: Seconds, tokens: float
) -> tuple[int, float]:
    """Return the draft length of most expected gain, and the gain of such drafts until so many tokens are emitted."""
    length, gain = best_length(chances, curve, throughput, draft_seconds)
    emitted = 1 + sum(accumulate(chances[:length], mul))
    return length, gain * tokens / emitted


def affordable(
    longest: int, cost: Callable[[int], float], lower_bounds: Sequence[float], budget: float, trust: float
) -> int:
    """Return the longest draft that a budget in tokens allows to verify; 0 where it allows none.

    `cost(n)` is what a round with n draft tokens takes longer than a plain one, in tokens: the loss when all of them
    are rejected. `lower_bounds[i]` is the proven acceptance probability of token i, 0 beyond. The expected loss, with
    the lower bounds, is within the budget, and the possible loss never more than `trust` beyond it.
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
    """Return those places of a draft where a second choice is worth its row, ascending; at most `room` of them.

    `places` are those that have one; `sibling_chance` is that of a second choice where the first was rejected. An
    accepted sibling saves a token's pass, but has to be read once more with the next round: its row leaves nothing in
    the cache.
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


def break_even(longest: int, curve: VerifyCurve, throughput: float, draft_seconds: Seconds = no_time) -> float | None:
    """Return the acceptance probability a token from which on drafting pays; None where it never does."""
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
