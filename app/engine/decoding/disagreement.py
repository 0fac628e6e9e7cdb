"""How far target and draft were apart where a guess was rejected; a value that needs no arithmetic to be read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What the target made of the guess that it rejected, before temperature, cuts and penalties."""

    proposal_prob: float
    """Its probability of the rejected guess."""
    instead_prob: float
    """Its probability of what it said instead: the replacement, or the sibling that was kept."""
