"""Why drafting does what it does, as numbers: what a pass costs, what each source was worth, and what it would need."""

from dataclasses import dataclass

from app.engine.control.acceptance import SourceCount
from app.engine.control.expected_gain import Seconds, break_even, no_time
from app.engine.control.policy import Adaptive


@dataclass(frozen=True, slots=True)
class WidthCost:
    """What a pass over several tokens costs now."""

    width: int
    seconds: float
    ratio: float
    """Over a pass of one token."""


@dataclass(frozen=True, slots=True)
class SourceAccount:
    """What a source of guesses was seen to do, checked or not, since the models were loaded."""

    name: str
    guessed_at: tuple[int, ...]
    """Guesses at each place of a draft whose predecessors all came true."""
    right_at: tuple[int, ...]
    chance: float
    """Chance of its next guess, as learnt: the recent past counts most."""
    needed: float | None
    """Chance a token from which on it pays here and now; None: it never does."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the controller knows, at one moment."""

    longest: int
    """Longest draft that is allowed."""
    widths: tuple[WidthCost, ...]
    plain_rate: float
    """Tokens a second without drafting, as passes of one token cost now."""
    rate: float
    """Tokens a second that rounds achieved lately; never less than plain."""
    sources: tuple[SourceAccount, ...]
    model: str
    """Name of the draft model; "" without one."""
    model_step_ratio: float | None
    """Its pass of one token over the target's."""
    next_try: int | None
    """Rounds until a draft model that does not pay is tried again; None: it pays, or can't at any acceptance."""
    adapts: bool = True
    """Whether it decides at all; else every draft of a fixed length is checked, and nothing is learnt."""
    failure: str = ""
    """What went wrong with the draft model in this answer, which goes on without it."""
    model_tuned: bool = True
    """Whether the fastest way to run the draft model was looked for, or there is no other; True without one."""
    aftermath: float = 0.0
    """How much longer passes of one token take after one over more, in passes of one token; 0: nothing to speak of."""


def explain(adaptive: Adaptive, *, adapts: bool = True, failure: str = "") -> Explanation:
    """Return what a controller knows and does, to be shown; with `adapts` False it is asked for nothing."""
    one = adaptive.curve.seconds(1)
    model = adaptive.model
    widths = [width for width in adaptive.curve.measured if width <= adaptive.longest + 1]
    costs = (WidthCost(width, adaptive.curve.seconds(width), adaptive.curve.ratio(width)) for width in widths)
    return Explanation(
        adaptive.longest,
        tuple(costs),
        1 / one,
        adaptive.price,
        tuple(_account(adaptive, name, count) for name, count in adaptive.acceptance.counts.items() if name),
        model.name if model else "",
        model.curve.seconds(1) / one if model else None,
        adaptive.rounds_to_next_try() if adapts else None,
        adapts,
        failure,
        model is None or model.tuned,
        adaptive.curve.aftermath_ratio,
    )


def _account(adaptive: Adaptive, name: str, count: SourceCount) -> SourceAccount:
    needed = break_even(adaptive.longest, adaptive.curve, 1 / adaptive.curve.seconds(1), _draft_seconds(adaptive, name))
    chance = adaptive.acceptance.at(name, 0)
    return SourceAccount(name, tuple(count.guessed_at), tuple(count.right_at), chance, needed)


def _draft_seconds(adaptive: Adaptive, source: str) -> Seconds:
    model = adaptive.model
    if model is None or not source.startswith(model.name):
        return no_time
    return model.draft_seconds(1)
