"""The seam between guessing and checking: a draft is a value, a drafter is five members, and nothing else crosses.

A drafter can't make the text wrong, only slow: the target checks every token. So a drafter may be as bold as it likes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.sampling import Sampler


@dataclass(frozen=True, slots=True)
class Draft:
    """The tokens guessed in one round, and the evidence for them."""

    tokens: tuple[int, ...] = ()
    """Guessed ids, in order; empty when there is nothing to say."""
    probs: NDArray[np.float64] | None = None
    """Distributions they were drawn from, shape (tokens, vocabulary); None: a point mass, a deterministic guess."""
    confidence: tuple[float, ...] = ()
    """Chance, 0 to 1, that each token is accepted given the ones before; empty: no opinion."""
    source: str = "off"
    """Name of the drafter."""


NO_DRAFT = Draft()


class Drafter(Protocol):
    """Anything that guesses the next tokens of a target."""

    name: str
    """Short name, for screens and statistics."""

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        """Start an answer to this prompt; what was learnt from earlier ones may be kept.

        `sampler` is the target's own: a drafter that holds a distribution picks from it with the same noise.
        """

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Guess the tokens after `context`, which ends with the pending token; at most `limit`, at least none.

        Changes nothing that `accept` has not confirmed, and never guesses past an end-of-generation token.
        """

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Learn what a round emitted, and how many of its first tokens were the draft's; called once a round."""

    def close(self) -> None:
        """Free everything; calling it twice is fine."""


class NullDrafter:
    """Never guesses. With it the loop is plain decoding: the same loop, so the same text."""

    name = "off"

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        """Do nothing."""

    def propose(self, context: Sequence[int], limit: int) -> Draft:  # noqa: ARG002
        """Return the empty draft."""
        return NO_DRAFT

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
