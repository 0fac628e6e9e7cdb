"""What a draft is worth, in tokens: the rule that decides every draft length.

A round that checks n guesses emits 1 + P_1 + ... + P_n tokens on average, P_i being the chance that the first i are all
accepted, and takes T(n + 1) seconds, and the drafter's own. With lambda, the tokens a second that rounds achieve
anyway, seconds have a price in tokens, and the best n maximises

    (1 + P_1 + ... + P_n) - lambda (T(n + 1) + draft seconds)

n = 0, plain decoding, is one of the candidates: switching off is no special case. (Renewal reward, Dinkelbach 1967; the
price of a second is what is achieved now, not what plain decoding would.) Every n is looked at, as T is jagged: four
tokens can cost less than three.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul

from app.engine.calibrate import VerifyCurve

MARGIN = 0.03
"""Tokens that a draft must be worth more than none: estimates err, and plain decoding does not."""
_HALVINGS = 20

Seconds = Callable[[int], float]
"""Seconds that a drafter takes for a draft of so many tokens."""


def no_time(length: int) -> float:  # noqa: ARG001
    """Return what a draft costs that is already there."""
    return 0.0


def best_length(
    chances: Sequence[float], curve: VerifyCurve, price: float, draft_seconds: Seconds = no_time
) -> tuple[int, float]:
    """Return the draft length worth most, and how many tokens more than plain decoding it is worth; (0, 0.0) for none.

    `chances[i]` is that of guess i given the ones before; `price` is in tokens a second.
    """
    after = curve.aftermath - curve.seconds(1)
    best, best_gain, least = 0, MARGIN, price * (curve.least + after)
    extra, longest = 0.0, len(chances)
    for n, prefix in enumerate(accumulate(chances, mul), start=1):
        extra += prefix
        gain = extra - price * (curve.seconds(n + 1) + after + draft_seconds(n))
        if gain > best_gain:
            best, best_gain = n, gain
        # Were all that follow as likely as this one, and in the cheapest pass, they would not be worth more.
        if extra + prefix * (longest - n) - least <= best_gain:
            break
    return (best, best_gain) if best else (0, 0.0)


def can_pay(longest: int, curve: VerifyCurve, price: float, draft_seconds: Seconds) -> bool:
    """Tell whether a draft that is always right would be worth its time."""
    return any(n - price * (curve.extra(n + 1) + draft_seconds(n)) > MARGIN for n in range(1, longest + 1))


def worth_of_rest(
    chances: Sequence[float], curve: VerifyCurve, price: float, draft_seconds: Seconds, tokens: float
) -> tuple[int, float]:
    """Return the draft length worth most, and what drafts of it are worth until so many tokens are emitted."""
    length, gain = best_length(chances, curve, price, draft_seconds)
    emitted = 1 + sum(accumulate(chances[:length], mul))
    return length, gain * tokens / emitted


def affordable(longest: int, cost: Callable[[int], float], floors: Sequence[float], stake: float, trust: float) -> int:
    """Return the longest draft that may be checked with something at stake, in tokens; 0 where none is.

    `cost(n)` is what a round with n guesses takes longer than a plain one, in tokens: what is lost when all of them are
    wrong. `floors[i]` is the chance of guess i that its source has proved, 0 beyond. No more than the stake may be
    expected to be lost with the chances that are proved, and never more than `trust` beyond it.
    """
    proved = [*floors[:longest], *[0.0] * (longest - len(floors))]
    gained = [*accumulate(accumulate(proved, mul))]
    return next((n for n in range(longest, 0, -1) if cost(n) - min(gained[n - 1], trust) <= stake), 0)


def best_siblings(
    chances: Sequence[float],
    places: Sequence[int],
    sibling_chance: float,
    curve: VerifyCurve,
    price: float,
    room: int,
) -> tuple[int, ...]:
    """Return those places of a draft where a second guess is worth its row, ascending; at most `room` of them.

    `places` are those that have one; `sibling_chance` is that of a second guess where the first was wrong. One that
    comes true saves a token's pass, but has to be read once more with the next round: what was said of it is not in
    the cache.
    """
    one = curve.seconds(1)
    worth = sibling_chance * (1 - price * (curve.seconds(2) - one))
    reached = [*accumulate(chances, mul, initial=1.0)]
    gains = [(reached[place] * (1 - chances[place]) * worth, place) for place in places]
    gains.sort(reverse=True)
    n, best, best_gain, extra = len(chances), 0, MARGIN, 0.0
    for count, (gain, _) in enumerate(gains[:room], start=1):
        extra += gain
        gained = extra - price * (curve.seconds(n + count + 1) - curve.seconds(n + 1))
        if gained > best_gain:
            best, best_gain = count, gained
    return tuple(sorted(place for _, place in gains[:best]))


def break_even(longest: int, curve: VerifyCurve, price: float, draft_seconds: Seconds = no_time) -> float | None:
    """Return the chance a token from which on drafting pays; None where it never does."""
    low, high = 0.0, 1.0
    if not can_pay(longest, curve, price, draft_seconds):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if best_length([middle] * longest, curve, price, draft_seconds)[0] == 0:
            low = middle
        else:
            high = middle
    return high
