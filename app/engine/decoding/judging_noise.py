"""Where chance comes from when a draft is judged: coins and draws that depend on the seed and the place alone."""

from typing import Any, Protocol

import numpy as np

from models.sampling.distribution import Distribution
from models.sampling.noise import gumbel, stream, uniform

_JUDGING = 2
"""Label of the coins; drafts are drawn under another, so the two know nothing of each other."""


class JudgingNoise(Protocol):
    """The chances of one round."""

    def happens(self, chance: Any, place: int, turn: int = 0) -> bool:
        """Toss the coin for a place of the draft, which comes up with this chance; another coin for each turn."""

    def draw(self, distribution: Distribution, place: int) -> int:
        """Draw the token that is emitted at a place, the first of the draft being 0."""


class SeededNoise:
    """Coins that the seed decides: the same round again has the same outcome."""

    def __init__(self, seed: int, start: int) -> None:
        """Take the seed of the answer, and the number of tokens before the round."""
        self._seed = seed
        self._start = start
        # Coins are those of the round: a rule that judges a whole draft tosses for places that a later round, knowing
        # the outcome, comes to again.
        self._noise_source = stream(seed, _JUDGING, start)

    def happens(self, chance: Any, place: int, turn: int = 0) -> bool:
        """Toss the coin for a place."""
        return bool(self.uniform(place, turn) < chance)

    def uniform(self, place: int, turn: int) -> float:
        """Return what the coin shows, a number in [0, 1): it comes up when that is below its chance."""
        return uniform(self._noise_source, place, turn)

    def draw(self, distribution: Distribution, place: int) -> int:
        """Draw by Gumbel-max, with the noise that plain decoding has at this position."""
        possible = distribution.probs > 0
        ids = distribution.ids[possible]
        keys = np.log(distribution.probs[possible]) + gumbel(self._seed, self._start + place, ids)
        return int(ids[np.argmax(keys)])
