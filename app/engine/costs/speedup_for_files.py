"""Predicted speed-up for two files: from costs measured on this machine, or else from the bytes that a step reads."""

from dataclasses import dataclass
from pathlib import Path

from app.engine.costs.known_costs import KnownCosts, known_draft
from app.engine.costs.speedup_model import Prediction, predict


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Prediction and its basis."""

    prediction: Prediction
    target: KnownCosts | None
    """Measured passes of the target; None: assumed."""
    step_measured: bool
    """Whether a step of the draft model was measured; else its cost follows from the bytes that both models read."""
    target_bytes: float
    """Bytes that the target reads for each token."""
    draft_bytes: float
    as_text: bool = False
    """Whether the draft model has other tokens than the target, and drafts text."""


def foresee(
    target: KnownCosts | None,
    target_bytes: float,
    draft_bytes: float,
    draft: KnownCosts | None = None,
    *,
    as_text: bool = False,
) -> Foreseen:
    """Return the predicted gain of a draft model; `as_text`: it has other tokens than the target, and drafts text.

    Measured seconds count only if both models were measured; else both count by their bytes.
    """
    if target is not None and draft is not None:
        step, measured = draft.one_token / target.one_token, True
    else:
        step, measured = draft_bytes / max(target_bytes, 1.0), False
    prediction = predict(step, target.verify if target else None, as_text=as_text)
    return Foreseen(prediction, target, measured, target_bytes, draft_bytes, as_text)


def foresee_file(
    memory: Path,
    target: KnownCosts | None,
    target_bytes: float,
    draft: Path,
    draft_bytes: float,
    *,
    as_text: bool = False,
) -> Foreseen:
    """Return the predicted gain of a draft model on this machine; `memory` is the file of measurements."""
    known = known_draft(memory, draft) if target else None
    return foresee(target, target_bytes, draft_bytes, known, as_text=as_text)
