"""What a wide pass makes dearer besides itself: the first passes of one token after it.

CUDA replays passes that are alike from a graph. After one of another width the next is launched kernel by kernel, and
the one after that is recorded anew. On a quick card that can take longer than the wide pass itself, and no price of a
pass alone shows it. On a processor it is nothing that can be told from noise, and counts as nothing.
"""

import statistics
from collections import deque

DISTURBED = 2
"""Passes of one token after a wide one that may be dearer; the next is taken to be as usual."""
_LATELY, _FEWEST = 9, 3
"""Last times that are remembered, of which the medians count, and the fewest that say anything."""
_NOTICED = 0.2
"""Tokens' time below which it is noise."""
_NO_FACTORS = (1.0,) * (DISTURBED + 1)


class Aftermath:
    """How much longer passes of one token take after a wide one than when they follow their like."""

    def __init__(self) -> None:
        self.tokens = 0.0
        """Time that a wide pass costs after it, in passes of one token."""
        self._factors = _NO_FACTORS
        self._seen: deque[list[float]] = deque(maxlen=_LATELY)
        self._since: list[float] | None = None
        """Seconds of the passes since the last wide one; None: nothing more is to be learnt from them."""

    def begin(self) -> None:
        """Take the passes that follow to come after something else."""
        self._since = None

    @property
    def is_over(self) -> bool:
        """Whether a wide pass now would have one, which it has not right after another."""
        return self._since != []

    @property
    def factor(self) -> float:
        """How many times longer than usual the next pass takes if it is of one token."""
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
