"""Controllers on crafted curves, and rounds played on them, for the tests of the controller."""

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings
from app.engine.control.draft_model_cost import ModelCost
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.round import Round
from app.engine.decoding.verify import Verdict
from drafters.base import NO_DRAFT, Draft
from drafters.hybrid import ModelRequest

MODEL = "model:small"
FLAT = {1: 1.0, 32: 1.0}
ROOM = 31
EVEN = {1: 1.0, 32: 1 + 31 * 0.1}
STEEP = {1: 1.0, 2: 2.0, 32: 32.0}
PASS_OF_FOUR = {1: 1.0, 4: 1.0, 64: 16.0}
"""Passes of a draft model: a step, and what it reads at once, four tokens for the time of a step."""


def model_cost(step: float, name: str = MODEL) -> ModelCost:
    return ModelCost(name, VerifyCurve({width: step * ratio for width, ratio in PASS_OF_FOUR.items()}))


def controller(curve: VerifyCurve, longest: int = 31, model: ModelCost | None = None) -> AdaptiveController:
    return AdaptiveController(curve, AnswerSettings(longest), model)


def new(curve: dict[int, float] = EVEN, step: float | None = None, longest: int = 31) -> AdaptiveController:
    """Return a controller that begins an answer, with a draft model whose step takes so much of a plain pass."""
    adaptive = controller(VerifyCurve(curve), longest, None if step is None else model_cost(step))
    adaptive.begin()
    return adaptive


def free(length: int, sure: float = 0.9) -> Draft:
    return Draft(tuple(range(length)), confidence=(sure,) * length, source="suffix")


def select(adaptive: AdaptiveController, draft: Draft, room: int) -> Draft:
    """Plan a round, and select of a draft."""
    adaptive.plan()
    return adaptive.select(draft, room)


def observe(adaptive: AdaptiveController, round_: Round) -> None:
    """Let a round happen for which no drafter was called."""
    adaptive.plan()
    adaptive.observe(round_)


def request(
    adaptive: AdaptiveController, free_draft: Draft, unread: int, limit: int, *, skipped: int = 0
) -> ModelRequest:
    """Make a request to the draft model, as the hybrid drafter does."""
    wanted = adaptive.policy.request(free_draft, unread, limit, skipped=skipped)
    adaptive.requested(wanted)
    return wanted


def goes_on(adaptive: AdaptiveController, source: str, confidence: tuple[float, ...]) -> bool:
    """Make one more step of the draft model if it pays, as the hybrid drafter does."""
    adaptive.read()
    decided = adaptive.policy.goes_on(source, confidence)
    if decided:
        adaptive.stepped()
    return decided


def played(adaptive: AdaptiveController, draft: Draft = NO_DRAFT, right: int = 0, draft_seconds: float = 0.0) -> Round:
    """Let a round happen: `right` tokens of a draft are right, and its pass takes what the curve says.

    As in the loop, no drafter is called where the plan has no room for a draft.
    """
    limit = adaptive.plan().limit
    checked = adaptive.select(draft, ROOM) if draft.tokens or limit > 0 else NO_DRAFT
    accepted = min(right, len(checked.tokens))
    next_token = draft.tokens[accepted] if right > accepted else -1
    seconds = adaptive.state.curve.seconds(len(checked.tokens) + 1)
    verdict = Verdict(accepted, next_token, is_bonus=accepted == len(checked.tokens))
    emitted = (*checked.tokens[:accepted], next_token)
    round_ = Round(checked, verdict, emitted, 10, draft_seconds, seconds, 0.0, None, len(checked.tokens) + 1)
    adaptive.observe(round_)
    return round_
