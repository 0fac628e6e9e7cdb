"""Controllers on crafted curves, and rounds played on them, for the tests of the controller."""

from app.engine.calibrate import VerifyCurve
from app.engine.control.draft_model_cost import ModelCost
from app.engine.control.policy import Adaptive
from app.engine.round import Round
from app.engine.verify import Verdict
from drafters.base import NO_DRAFT, Draft

MODEL = "model:small"
FLAT = {1: 1.0, 32: 1.0}
ROOM = 31
EVEN = {1: 1.0, 32: 1 + 31 * 0.1}
STEEP = {1: 1.0, 2: 2.0, 32: 32.0}
PASS_OF_FOUR = {1: 1.0, 4: 1.0, 64: 16.0}
"""Passes of a draft model: a step, and what it reads at once, four tokens for the time of a step."""


def model_cost(step: float, name: str = MODEL) -> ModelCost:
    return ModelCost(name, VerifyCurve({width: step * ratio for width, ratio in PASS_OF_FOUR.items()}))


def new(curve: dict[int, float] = EVEN, step: float | None = None, longest: int = 31) -> Adaptive:
    """Return a controller that begins an answer, with a draft model whose step takes so much of a plain pass."""
    adaptive = Adaptive(VerifyCurve(curve), longest, None if step is None else model_cost(step))
    adaptive.begin()
    return adaptive


def free(length: int, sure: float = 0.9) -> Draft:
    return Draft(tuple(range(length)), confidence=(sure,) * length, source="suffix")


def played(adaptive: Adaptive, draft: Draft = NO_DRAFT, right: int = 0, draft_seconds: float = 0.0) -> Round:
    """Let a round happen: `right` tokens of a draft come true, and its pass takes what the curve says.

    As in the loop, nobody is asked for a draft where none is wanted.
    """
    checked = adaptive.trim(draft, ROOM) if draft.tokens or adaptive.limit() > 0 else NO_DRAFT
    accepted = min(right, len(checked.tokens))
    next_token = draft.tokens[accepted] if right > accepted else -1
    seconds = adaptive.curve.seconds(len(checked.tokens) + 1)
    verdict = Verdict(accepted, next_token, is_bonus=accepted == len(checked.tokens))
    emitted = (*checked.tokens[:accepted], next_token)
    round_ = Round(checked, verdict, emitted, 10, draft_seconds, seconds, 0.0, None, len(checked.tokens) + 1)
    adaptive.observe(round_)
    return round_
