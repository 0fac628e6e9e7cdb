"""Disagreement of target and draft at a rejected token; a plain value, so that screens import no arithmetic."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Target's probabilities at a rejected draft token, before temperature, cuts and penalties."""

    proposal_prob: float
    """Target's probability of the rejected draft token."""
    instead_prob: float
    """Target's probability of the emitted token: the replacement, or the accepted sibling."""
