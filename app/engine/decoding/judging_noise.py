"""Randomness of the accept rules: random numbers and draws that depend on the seed and the place alone."""

from typing import Any, Protocol

import numpy as np

from models.sampling.distribution import Distribution
from models.sampling.noise import gumbel, stream, uniform

_JUDGING = 2
"""Label of the random numbers; drafts are drawn under another label, so both are independent."""


class JudgingNoise(Protocol):
    """Source of randomness for one round."""

    def happens(self, chance: Any, place: int, turn: int = 0) -> bool:
        """Return True with probability `chance`, for a place of the draft; each turn has another random number."""

    def draw(self, distribution: Distribution, place: int) -> int:
        """Draw the emitted token at a place; the first place of the draft is 0."""


class SeededNoise:
    """Randomness fixed by the seed: a repeated round has an equal outcome."""

    def __init__(self, seed: int, start: int) -> None:
        """Take the seed of the answer, and the number of tokens before the round."""
        self._seed = seed
        self._start = start
        # Random numbers belong to the round: the block rule uses some for places that a later round, which depends on
        # the outcome, judges again.
        self._noise_source = stream(seed, _JUDGING, start)

    def happens(self, chance: Any, place: int, turn: int = 0) -> bool:
        """Return whether the random number of a place and turn is below `chance`."""
        return bool(self.uniform(place, turn) < chance)

    def uniform(self, place: int, turn: int) -> float:
        """Return the random number of a place and turn, in [0, 1)."""
        return uniform(self._noise_source, place, turn)

    def draw(self, distribution: Distribution, place: int) -> int:
        """Draw by Gumbel-max, with the noise that plain decoding has at this position."""
        possible = distribution.probs > 0
        ids = distribution.ids[possible]
        keys = np.log(distribution.probs[possible]) + gumbel(self._seed, self._start + place, ids)
        return int(ids[np.argmax(keys)])
