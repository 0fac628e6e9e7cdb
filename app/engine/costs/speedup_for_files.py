"""From two files to a predicted speed-up: what was measured on this machine where it was, bytes read where not."""

from dataclasses import dataclass
from pathlib import Path

from app.engine.costs.known_costs import KnownCosts, known_draft
from app.engine.costs.speedup_model import Prediction, predict


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A prediction, and what it rests on."""

    prediction: Prediction
    target: KnownCosts | None
    """Measured passes of the target; None: assumed."""
    step_measured: bool
    """Whether a step of the draft model was measured; else it follows from the bytes that both read a token."""
    target_bytes: float
    """Bytes that a token of the target reads."""
    draft_bytes: float


def foresee(
    target: KnownCosts | None, target_bytes: float, draft_bytes: float, draft: KnownCosts | None = None
) -> Foreseen:
    """Return what a draft model would gain.

    Seconds are compared with seconds alone: a measured draft model beside a target that was not counts by its bytes.
    """
    if target is not None and draft is not None:
        step, measured = draft.one_token / target.one_token, True
    else:
        step, measured = draft_bytes / max(target_bytes, 1.0), False
    return Foreseen(predict(step, target.verify if target else None), target, measured, target_bytes, draft_bytes)


def foresee_file(
    memory: Path, target: KnownCosts | None, target_bytes: float, draft: Path, draft_bytes: float
) -> Foreseen:
    """Return the same for a draft model that is on this machine; `memory` is the file of what was measured here."""
    return foresee(target, target_bytes, draft_bytes, known_draft(memory, draft) if target else None)
