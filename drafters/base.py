"""Interface between drafting and verification: drafts, and the protocol of a drafter with its five members.

A drafter can't make the text wrong, only slow: the target checks every draft token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from models.base import LanguageModel, Logits
from models.sampling.distribution import Distribution, one_hot
from models.sampling.sampler import Sampler
from models.text.prompts import Message


class Offer(NamedTuple):
    """A draft token beside the chain that a drafter offers; the controller decides which of them are verified."""

    place: int
    """Place of the chain that it is another proposal for, or the one after it; below 0: it follows offer ~place."""
    token: int
    confidence: float
    """Probability, 0 to 1, that it is accepted given the tokens before it."""


@dataclass(frozen=True, slots=True)
class Offers:
    """Further draft tokens of a drafter that drafts trees; each comes after the one that it follows."""

    nodes: tuple[Offer, ...] = ()
    """No two of them with one token after the same predecessor, nor one with the chain's own token."""
    wants_rows: bool = False
    """Whether the drafter learns from the row after every token, so that cheap ones are worth verifying in any case."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The draft tokens of one round, with their acceptance probabilities.

    A draft is a chain of tokens. Beside it there can be siblings: other proposals for a place of the chain. A sibling
    can have siblings after it in turn, so that chain and siblings are a tree.
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
    """(place, token) of the draft tokens beside the chain, verified too.

    A place from 0 on is that of the chain; a place below 0 stands for a token that follows the sibling number ~place,
    which comes before it. Several for one place are judged in their order.
    """
    probs_after: tuple[Distribution | None, ...] = ()
    """For each sibling the distribution that the tokens after it were drawn from; empty where none was drawn."""
    offers: Offers | None = None
    """Draft tokens from which siblings can be made; None: the drafter drafts no trees."""

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
        chain = len(self.tokens)
        return (*range(-1, chain - 1), *(_parent(place, chain) for place, _ in self.siblings))

    @property
    def places(self) -> tuple[int, ...]:
        """Place of each sibling: the number of draft tokens before it on its path."""
        places: list[int] = []
        for place, _ in self.siblings:
            places.append(place if place >= 0 else places[~place] + 1)
        return tuple(places)

    def drawn_from(self, place: int) -> Distribution:
        """Return the distribution of the chain's token at a place."""
        return one_hot(self.tokens[place]) if self.probs is None else self.probs[place]

    def drawn_after(self, row: int) -> Distribution | None:
        """Return the distribution that the tokens after a sibling were drawn from; None where none was drawn."""
        index = row - len(self.tokens) - 1
        return self.probs_after[index] if 0 <= index < len(self.probs_after) else None

    def beside(self, row: int) -> list[tuple[int, int]]:
        """Return (row, token) of each sibling that follows the token of a row, in order; rows are those of the pass.

        Row 0 is that of the pending token, those after it belong to the tokens to check.
        """
        parent, first = row - 1, len(self.tokens) + 1
        chain = len(self.tokens)
        return [
            (first + index, token)
            for index, (place, token) in enumerate(self.siblings)
            if _parent(place, chain) == parent
        ]

    def path_to(self, row: int) -> tuple[int, ...]:
        """Return the draft tokens up to that of a row, itself included."""
        tokens, chain, checked, parents = list[int](), len(self.tokens), self.checked, self.parents
        while row > 0:
            tokens.append(checked[row - 1])
            row = row - 1 if row <= chain else parents[row - 1] + 1
        return tuple(tokens[::-1])

    def rows_of(self, branch: Sequence[int], place: int) -> list[int]:
        """Return the rows of accepted siblings, one after the other, of which the first stands at a place."""
        rows, row = list[int](), place
        for token in branch:
            row = next(row for row, proposal in self.beside(row) if proposal == token)
            rows.append(row)
        return rows

    def shortened(self, length: int) -> "Draft":
        """Return the first `length` tokens of the chain, with the siblings beside them."""
        return replace(
            self,
            tokens=self.tokens[:length],
            probs=None if self.probs is None else self.probs[:length],
            confidence=self.confidence[:length],
            runners_up=self.runners_up[:length],
            siblings=_within(self.siblings, length) if self.siblings else (),
            offers=replace(self.offers, nodes=_within(self.offers.nodes, length)) if self.offers else None,
        )


def _parent(place: int, chain: int) -> int:
    """Return the index among the tokens to check of a sibling's predecessor, beside a chain of so many tokens."""
    return place - 1 if place >= 0 else chain + ~place


def _within(nodes: Sequence[Any], length: int) -> tuple[Any, ...]:
    """Return the siblings or offers beside the first `length` tokens of a chain, and those that follow them."""
    kept: dict[int, int] = {}
    result: list[Any] = []
    for index, node in enumerate(nodes):
        place = node[0] if node[0] >= 0 else ~kept[~node[0]] if ~node[0] in kept else length
        if place < length:
            kept[index] = len(result)
            result.append(node._replace(place=place) if isinstance(node, Offer) else (place, *node[1:]))
    return tuple(result)


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

    @property
    def skipped(self) -> int:
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


@runtime_checkable
class ReadsRows(Protocol):
    """Protocol of a drafter that learns from the target's rows, not only from the tokens that became text."""

    def read_rows(self, pending: int, draft: Draft, rows: Logits) -> None:
        """Learn from the rows of a verified draft, shape (1 + draft.size, vocabulary), before `accept`.

        Row 0 follows the pending token, row i the token `draft.checked[i - 1]`. The rows are overwritten by the next
        pass. The time counts as the drafter's: a row should take microseconds.
        """


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
