"""Which slot a question goes to."""

from typing import NamedTuple


class Fitness(NamedTuple):
    """How well a question fits a slot: compared in this order, the better the larger.

    A slot that has read much of it comes first, then one that has read nothing, then one for the same purpose:
    completions leave conversations alone, and the other way round.
    """

    reused_tokens: int
    """0 for texts that only begin alike, with the same system prompt: no reason to lose another's."""
    unused: bool
    same_purpose: bool
    shares_passes: bool
    """Whether its passes can be one with those of who speaks already."""
