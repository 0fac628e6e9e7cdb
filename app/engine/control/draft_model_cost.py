"""What a draft model costs: the seconds of its passes, before anything is verified."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.engine.control.expected_gain import Seconds, can_pay
from app.engine.costs.pass_cost import VerifyCurve
from drafters.hybrid import catches_up_first

SMALLEST_WINDOW = 16
"""Unread tokens that are always read, all of them."""
WINDOWS = (32, 48, 64, 96, 128, 192, 256, 512, 1024)
"""Tokens at the end of a context that a draft model may read instead of all; with fewer its drafts are random."""


@dataclass(frozen=True, slots=True)
class ModelCost:
    """A draft model, and what its passes cost."""

    name: str
    """Its source in drafts."""
    curve: VerifyCurve
    """Seconds of its passes by tokens read."""
    tuned: bool = True
    """Whether the fastest way to run it was looked for, or there is no other."""

    def reading(self, tokens: int) -> float:
        """Return the seconds to read tokens that are not in its cache."""
        return self.curve.seconds(max(1, tokens))

    def windows(self, unread: int, seconds: float) -> list[int]:
        """Return how many of the last unread tokens could be read in so many seconds, the most first."""
        if unread <= SMALLEST_WINDOW:
            return [unread]
        windows = (unread, *(window for window in reversed(WINDOWS) if window < unread))
        return [window for window in windows if self.reading(window) <= seconds]

    def drafting(self, unread: int, length: int) -> float:
        """Return the seconds expected for a draft of `length` tokens when `unread` ones have to be read first."""
        return self.draft_seconds(unread)(length)

    def probing(self, unread: int, length: int, emitted: int, verify: VerifyCurve) -> float:
        """Return the seconds of a probe: `length` draft tokens that are all rejected, `emitted` tokens on."""
        if catches_up_first(unread, emitted):
            # What it would have drafted of them is judged, and a second request comes before it drafts.
            return self.reading(unread)
        return self.drafting(unread, length) + verify.extra(length + 1)

    def can_pay(self, longest: int, verify: VerifyCurve, throughput: float) -> bool:
        """Tell whether a draft that is always right would be worth its time, at so many tokens a second."""
        return can_pay(longest, verify, throughput, self.draft_seconds(1))

    def draft_seconds(self, unread: int, agreed: Sequence[float] = ()) -> Seconds:
        """Return the seconds of a draft as a function of its length: a request chooses the best of many lengths.

        A free draft may be read along: `agreed[i]` is the chance that the model agrees with all of it up to token i.
        As long as it does, its draft tokens need no steps of their own.
        """
        step, saved = self.curve.seconds(1), [*accumulate(agreed, initial=0.0)]
        # Much to read is read in a pass of its own, which leaves the last token to the next.
        least = self.reading(unread + len(agreed)) + step * (unread > SMALLEST_WINDOW)
        return lambda length: least + step * (max(0, length - 1) - saved[min(max(0, length - 1), len(agreed))])

    def read_along(self, unread: int, agreed: Sequence[float]) -> int:
        """Return how many tokens of a free draft to read along: as many as save most steps for the time they take."""
        step, saved = self.curve.seconds(1), [*accumulate(agreed, initial=0.0)]
        return max(range(len(saved)), key=lambda n: step * saved[n] - self.reading(unread + n))
