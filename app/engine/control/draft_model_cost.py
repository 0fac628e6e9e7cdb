"""Costs of a draft model: the seconds of its passes, verification not included."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.engine.control.expected_gain import Seconds, can_pay
from app.engine.costs.pass_cost import VerifyCurve
from drafters.hybrid import catches_up_first

SMALLEST_WINDOW = 16
"""Unread tokens up to which all of them are read."""
WINDOWS = (32, 48, 64, 96, 128, 192, 256, 512, 1024)
"""Last tokens of a context that a draft model may read in place of all; with fewer its drafts are random."""


@dataclass(frozen=True, slots=True)
class ModelCost:
    """Name of a draft model and the costs of its passes."""

    name: str
    """Its name as the source of drafts."""
    curve: VerifyCurve
    """Seconds of its passes by tokens read."""
    tuned: bool = True
    """Whether `tune` has looked for its fastest settings, or there are no others."""
    reads_copies: bool = True
    """Whether it can read a free draft with one pass; a head lacks the target's rows for that."""

    def reading(self, tokens: int) -> float:
        """Return the seconds to read tokens that are not in its cache."""
        return self.curve.seconds(max(1, tokens))

    def windows(self, unread: int, seconds: float) -> list[int]:
        """Return numbers of last unread tokens that can be read in `seconds`, the largest first."""
        if unread <= SMALLEST_WINDOW:
            return [unread]
        windows = (unread, *(window for window in reversed(WINDOWS) if window < unread))
        return [window for window in windows if self.reading(window) <= seconds]

    def drafting(self, unread: int, length: int) -> float:
        """Return the expected seconds of a draft of `length` tokens after reading `unread` tokens."""
        return self.draft_seconds(unread)(length)

    def probing(self, unread: int, length: int, emitted: int, verify: VerifyCurve) -> float:
        """Return the seconds of a probe `emitted` tokens from now: `length` draft tokens, all rejected."""
        if catches_up_first(unread, emitted):
            # Its predictions of them are judged first, so a second request comes before it drafts.
            return self.reading(unread)
        return self.drafting(unread, length) + verify.extra(length + 1)

    def can_pay(self, longest: int, verify: VerifyCurve, throughput: float) -> bool:
        """Tell whether a draft that is always accepted would pay off at this throughput, in tokens a second."""
        return can_pay(longest, verify, throughput, self.draft_seconds(1))

    def draft_seconds(self, unread: int, agreed: Sequence[float] = ()) -> Seconds:
        """Return the seconds of a draft as a function of its length, for a request that compares many lengths.

        The model may read a free draft with its unread tokens: `agreed[i]` is the chance that it agrees with the free
        draft up to token i. As long as it agrees, its draft tokens need no steps of their own.
        """
        step, saved = self.curve.seconds(1), [*accumulate(agreed, initial=0.0)]
        # A long unread text is read in a pass of its own, which leaves the last token to the next pass.
        least = self.reading(unread + len(agreed)) + step * (unread > SMALLEST_WINDOW)
        return lambda length: least + step * (max(0, length - 1) - saved[min(max(0, length - 1), len(agreed))])

    def read_along(self, unread: int, agreed: Sequence[float]) -> int:
        """Return how many tokens of a free draft to read: the number that saves most seconds of steps."""
        if not self.reads_copies:
            return 0
        step, saved = self.curve.seconds(1), [*accumulate(agreed, initial=0.0)]
        return max(range(len(saved)), key=lambda n: step * saved[n] - self.reading(unread + n))
