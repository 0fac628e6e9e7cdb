"""The seam between drafting and checking: a draft is a value, a drafter is five members, and nothing else crosses.

A drafter can't make the text wrong, only slow: the target checks every token. So a drafter may be as bold as it likes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from models.sampling.distribution import Distribution, one_hot
from models.sampling.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Draft:
    """The tokens guessed in one round, and the evidence for them.

    A draft is a chain of tokens; beside it there can be siblings, other guesses for a place of the chain, with nothing
    after them.
    """

    tokens: tuple[int, ...] = ()
    """Guessed ids of the chain, in order; empty when there is nothing to say."""
    probs: tuple[Distribution, ...] | None = None
    """Distribution that each token was drawn from; None: a point mass, a deterministic guess."""
    confidence: tuple[float, ...] = ()
    """Chance, 0 to 1, that each token is accepted given the ones before; empty: no opinion."""
    source: str = "off"
    """Name of the drafter."""
    runners_up: tuple[int | None, ...] = ()
    """The drafter's second choice for each place, from which siblings can be made; empty: it has none."""
    siblings: tuple[tuple[int, int], ...] = ()
    """(place, token) of the guesses beside the chain that are checked too; in order of place, at most one for each."""

    @property
    def size(self) -> int:
        """Tokens that the target has to check."""
        return len(self.tokens) + len(self.siblings)

    @property
    def checked(self) -> tuple[int, ...]:
        """All tokens to check: the chain, then the siblings."""
        return (*self.tokens, *(token for _, token in self.siblings))

    @property
    def parents(self) -> tuple[int, ...]:
        """Index among the tokens to check of each one's predecessor; -1: the pending token. Empty without siblings."""
        if not self.siblings:
            return ()
        return (*range(-1, len(self.tokens) - 1), *(place - 1 for place, _ in self.siblings))

    def drawn_from(self, place: int) -> Distribution:
        """Return the distribution of the chain's token at a place."""
        return one_hot(self.tokens[place]) if self.probs is None else self.probs[place]

    def sibling(self, place: int) -> tuple[int, int] | None:
        """Return (row, token) of the sibling at a place, its row among those of the pass; None where there is none."""
        for index, (where, token) in enumerate(self.siblings):
            if where == place:
                return len(self.tokens) + 1 + index, token
        return None

    def shortened(self, length: int) -> "Draft":
        """Return the first `length` tokens of the chain, with the siblings beside them."""
        return replace(
            self,
            tokens=self.tokens[:length],
            probs=None if self.probs is None else self.probs[:length],
            confidence=self.confidence[:length],
            runners_up=self.runners_up[:length],
            siblings=tuple(sibling for sibling in self.siblings if sibling[0] < length),
        )


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
