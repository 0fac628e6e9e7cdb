"""Interface between drafting and verification: drafts, and the protocol of a drafter with its five members.

A drafter can't make the text wrong, only slow: the target checks every draft token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from models.base import LanguageModel
from models.sampling.distribution import Distribution, one_hot
from models.sampling.sampler import Sampler
from models.text.prompts import Message


@dataclass(frozen=True, slots=True)
class Draft:
    """The draft tokens of one round, with their acceptance probabilities.

    A draft is a chain of tokens; beside it there can be siblings: other proposals for a place of the chain, with
    nothing after them.
    """

    tokens: tuple[int, ...] = ()
    """Draft token ids of the chain, in order; empty when there is nothing to propose."""
    probs: tuple[Distribution, ...] | None = None
    """Distribution that each token was drawn from; None: a point mass, for a deterministic proposal."""
    confidence: tuple[float, ...] = ()
    """Probability, 0 to 1, that each token is accepted given the ones before; empty: unknown."""
    source: str = "off"
    """Name of the drafter."""
    runners_up: tuple[int | None, ...] = ()
    """The drafter's second choice for each place, from which siblings can be made; empty: it has none."""
    siblings: tuple[tuple[int, int], ...] = ()
    """(place, token) of the draft tokens beside the chain, verified too; in order of place, at most one for each."""

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
NO_LIMIT = 1 << 30
"""Most tokens of a draft that goes on as long as it pays."""


class Drafter(Protocol):
    """Protocol of a drafting method, which proposes a target's next tokens."""

    name: str
    """Short name, for screens and statistics."""

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        """Start an answer to this prompt; what was learnt from earlier ones may be kept.

        `sampler` is the target's own: a drafter that holds a distribution picks from it with the same noise.
        """

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Return a draft of 0 to `limit` tokens after `context`, which ends with the pending token.

        Changes no state; only `accept` does. Never drafts past an end-of-generation token.
        """

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Learn what a round emitted, and how many of its first tokens were the draft's; called once a round."""

    def close(self) -> None:
        """Free everything; calling it twice is fine."""


GoesOn = Callable[[tuple[float, ...]], bool]
"""Takes the confidence, 0 to 1, of each draft token so far; returns whether to draft another."""
Hindsight = Sequence[tuple[float, bool]]
"""For each known token: confidence in the token that would have been drafted, 0 to 1, and whether both are equal."""


class ModelDrafter(Drafter, Protocol):
    """Protocol of a drafter that owns a language model, and need not have read the whole context.

    It draws its tokens one pass each, so it is asked for a draft where that pays, and before each pass again.
    """

    model: LanguageModel
    drafts_text: bool
    """Whether its tokens are others than the target's."""
    drafts_blocks: bool
    """Whether it makes all tokens of a draft in one pass, so that their number has to be known before."""
    longest: int
    """Most tokens of its drafts."""
    skipped: int
    """Tokens of its view of the context that it leaves unread."""

    def unread(self, context: Sequence[int]) -> int:
        """Return the number of tokens of its view to read before it can draft."""

    def focus(self, context: Sequence[int], window: int) -> None:
        """Forget what was read, and read no more of its view than the last `window` tokens."""

    def catch_up(self, context: Sequence[int], said: int) -> Hindsight:
        """Read all that is unread up to the last token; return what it would have drafted of the last `said` tokens."""

    def extend(self, context: Sequence[int], given: Sequence[int], limit: int, goes_on: GoesOn) -> Draft:
        """Return the `given` draft tokens up to the first disagreement, read in one pass, then its own.

        `goes_on` gets the confidence of all draft tokens so far before each further pass.
        """

    def beside(self, model: LanguageModel) -> "ModelDrafter":
        """Return a new drafter for the same target with a further cache over the weights of its model."""


def draft_to_the_limit(_: tuple[float, ...]) -> bool:
    """Return True: a `GoesOn` for whole drafts."""
    return True


@runtime_checkable
class ReadsMessages(Protocol):
    """Protocol of a drafter that reads the messages behind a prompt, beside the target's tokens of it."""

    def converse(self, turns: Sequence[Message]) -> None:
        """Take the messages of the next answer's prompt; none for a prompt that is plain text."""


def hand_messages(drafter: Drafter, turns: Sequence[Message]) -> None:
    """Hand the messages of the next prompt to a drafter, if it reads them."""
    if isinstance(drafter, ReadsMessages):
        drafter.converse(turns)


class NullDrafter:
    """Drafter of empty drafts: with it the loop is plain decoding."""

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
