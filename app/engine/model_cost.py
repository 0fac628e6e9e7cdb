"""What a draft model costs: a price to pay before anything is checked."""

from dataclasses import dataclass

from app.engine.calibrate import VerifyCurve

SMALLEST_WINDOW = 16
"""Unread tokens that are always read, all of them."""


@dataclass(frozen=True, slots=True)
class ModelCost:
    """A draft model, and what its passes cost."""

    name: str
    """Its source in drafts."""
    curve: VerifyCurve
    """Seconds of its passes by tokens read."""

    def reading(self, tokens: int) -> float:
        """Return the seconds to read tokens it has not seen."""
        return self.curve.seconds(max(1, tokens))

    def drafting(self, unread: int, given: int, length: int) -> float:
        """Return the seconds of a draft of `length` tokens, `given` of which it only checks."""
        # Much to read is read in a pass of its own, which leaves the last token to the next.
        own_steps = max(0, length - given - 1) + (unread > SMALLEST_WINDOW)
        return self.reading(unread + min(given, length)) + own_steps * self.curve.seconds(1)
