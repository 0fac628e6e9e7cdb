"""Whole answers of a controller, made up and played in virtual time."""

from collections.abc import Callable, Sequence

from adapting import controller, model_cost
from replay import Cost, Played, ReplayModel, Trace, play

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.draft_model_cost import ModelCost
from app.engine.costs.pass_cost import VerifyCurve
from drafters.base import Drafter
from drafters.draft_model import DraftModel
from drafters.hybrid import Hybrid

SIZE = 100


def trace(agrees: Sequence[bool], prompt: int = 20, sure: Sequence[float] = (0.9, 0.6, 0.97)) -> Trace:
    """Return an answer of which the draft model guesses the given places right."""
    answer = [(7 * place * place + place) % SIZE for place in range(len(agrees))]
    proposal = [token if agree else (token + 1) % SIZE for token, agree in zip(answer, agrees, strict=True)]
    drafter_confidence = tuple(sure[place % len(sure)] for place in range(len(agrees)))
    return Trace("made up", "chat", tuple(range(prompt)), tuple(answer), tuple(proposal), drafter_confidence, SIZE)


def cost_of(curve: dict[int, float] | VerifyCurve) -> Cost:
    curve = curve if isinstance(curve, VerifyCurve) else VerifyCurve(curve)
    table = [curve.seconds(width) for width in range(1, 65)]
    return lambda width, _: table[width - 1]


Make = Callable[[VerifyCurve, int, ModelCost | None], AdaptiveController]


def replayed(
    traces: Sequence[Trace],
    curve: dict[int, float],
    step: float | None = None,
    free_drafter: Callable[[Trace], Drafter] | None = None,
    make: Make = controller,
    cost: Cost | None = None,
    draft_cost: Cost | None = None,
) -> tuple[list[Played], AdaptiveController]:
    """Answer one trace after the other with one controller, as in a chat; return the answers and the controller."""
    told, adaptive = replayed_with_loans(traces, curve, step, free_drafter, make, cost, draft_cost)
    return [answer for answer, _ in told], adaptive


def replayed_with_loans(
    traces: Sequence[Trace],
    curve: dict[int, float],
    step: float | None = None,
    free_drafter: Callable[[Trace], Drafter] | None = None,
    make: Make = controller,
    cost: Cost | None = None,
    draft_cost: Cost | None = None,
) -> tuple[list[tuple[Played, float]], AdaptiveController]:
    """Do the same, and tell with each answer what was lent in it, in tokens."""
    measured_cost = None if step is None else model_cost(step, "model:draft")
    adaptive = make(VerifyCurve(curve), 31, measured_cost)

    def arm(target: ReplayModel, draft: ReplayModel, current: Trace) -> tuple[Drafter, AdaptiveController]:
        model = None if step is None else DraftModel(draft, target.vocab)
        if model is not None:
            draft.skipped = lambda: model.skipped
        return Hybrid([free_drafter(current)] if free_drafter else [], model, adaptive), adaptive

    told = []
    for current in traces:
        answer = play(
            current,
            lambda target, draft, current=current: arm(target, draft, current),  # type: ignore[misc]
            cost or cost_of(curve),
            draft_cost or cost_of(model_cost(step or 0.1).curve),
        )
        told.append((answer, adaptive.state.losses.lent))
    return told, adaptive
