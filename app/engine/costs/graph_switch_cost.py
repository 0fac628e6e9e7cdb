"""Graph switch cost: the extra time of the first one-token passes after a wide pass.

CUDA replays passes of equal shape from a graph. After a pass of another width the next one is launched kernel by
kernel, and the one after that is recorded anew. On a fast GPU that can take longer than the wide pass itself, and the
cost of a single pass does not show it. On a processor it can't be told from noise, and counts as 0.
"""

import statistics
from collections import deque

DISTURBED = 2
"""One-token passes after a wide one that may be slower; the next one has its usual cost."""
_LATELY, _FEWEST = 9, 3
"""Last measurements that are kept, whose median counts, and the fewest for a median."""
_NOTICED = 0.2
"""Least cost, in tokens' time; less is noise."""
_NO_FACTORS = (1.0,) * (DISTURBED + 1)


class Aftermath:
    """Extra time of one-token passes after a wide pass, over one-token passes after each other."""

    def __init__(self) -> None:
        self.tokens = 0.0
        """Extra time after a wide pass, in one-token passes."""
        self._factors = _NO_FACTORS
        self._seen: deque[list[float]] = deque(maxlen=_LATELY)
        self._since: list[float] | None = None
        """Seconds of the passes since the last wide one; None: the measurement is complete."""

    def begin(self) -> None:
        """Start anew: the next pass follows an unrelated one."""
        self._since = None

    @property
    def is_over(self) -> bool:
        """Whether a wide pass now would cost extra time later, which one right after another does not."""
        return self._since != []

    @property
    def factor(self) -> float:
        """Return the expected time of a one-token pass now over its usual time."""
        return 1.0 if self._since is None else self._factors[len(self._since)]

    def observe(self, width: int, seconds: float) -> None:
        """Learn from a pass."""
        if width > 1:
            self._since = []
        elif self._since is not None:
            self._since.append(seconds)
            if len(self._since) > DISTURBED:
                self._learn(*self._since)
                self._since = None

    def _learn(self, *seconds: float) -> None:
        *disturbed, usual = seconds
        self._seen.append([one / usual for one in disturbed])
        factors = [statistics.median(place) for place in zip(*self._seen, strict=True)]
        tokens = sum(factors) - DISTURBED
        noticed = tokens > _NOTICED and len(self._seen) >= _FEWEST
        self.tokens, self._factors = (tokens, (*factors, 1.0)) if noticed else (0.0, _NO_FACTORS)
