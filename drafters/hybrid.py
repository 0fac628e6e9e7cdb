"""Several drafters as one: what is free is always asked, a draft model only where it is expected to pay for itself.

    suffix index alone     it costs nothing
    draft model alone      a pass a token
    both                   the model reads the index's draft in one pass, cuts it where it disagrees, and goes on from
                           there: many of its guesses for the price of one (vertical cascade: Chen et al. 2023,
                           CS Drafting, arXiv 2312.11462)

What pays is not decided here: an Appraiser knows what passes cost and how often each source was right.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Protocol

from drafters.base import NO_DRAFT, Draft, Drafter
from drafters.draft_model import DraftModel, Hindsight
from drafters.suffix import SuffixDrafter
from models.errors import Cancelled, LocalspecError
from models.sampling import Sampler

_log = logging.getLogger("localspec.drafters")

_WORTH_A_LOOK_BACK = 16
"""Unread tokens beyond which reading them is a pass of its own, and tells how the model would have done on them."""


class Ask(Enum):
    """What to want from the draft model in a round."""

    NOTHING = "nothing"
    DRAFT = "draft"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class Wish:
    """How to use the draft model in a round."""

    ask: Ask = Ask.NOTHING
    length: int = 0
    """Tokens that are expected to be worth drafting; of a free draft to check: so many of its tokens are read."""
    window: int | None = None
    """Read only so many of the context's last tokens; None: all that is unread."""


class Appraiser(Protocol):
    """Values drafts, in tokens gained over plain decoding."""

    def worth(self, draft: Draft) -> float:
        """Return what the best beginning of a draft is worth; 0 for one not worth checking."""

    def wish(self, free: Draft, unread: int, limit: int, *, skipped: int = 0) -> Wish:
        """Return how to use the draft model beside a free draft, when it has `unread` tokens to read first.

        `skipped` are those before them that it has not read, and will not.
        """

    def learn(self, source: str, hindsight: Hindsight) -> None:
        """Learn what a draft model would have guessed of a text that is known."""

    def goes_on(self, source: str, sureness: tuple[float, ...]) -> bool:
        """Tell whether one more step of the draft model pays after guesses of this sureness."""


class Eager:
    """The appraiser that takes every draft whole, and asks a draft model in every round: for fixed draft lengths."""

    def worth(self, draft: Draft) -> float:
        """Return the length."""
        return len(draft.tokens)

    def wish(self, free: Draft, unread: int, limit: int, *, skipped: int = 0) -> Wish:  # noqa: ARG002
        """Ask the draft model, unless a free draft is there already."""
        return Wish() if free.tokens else Wish(Ask.DRAFT, limit)

    def learn(self, source: str, hindsight: Hindsight) -> None:
        """Learn nothing."""

    def goes_on(self, source: str, sureness: tuple[float, ...]) -> bool:  # noqa: ARG002
        """Always go on."""
        return True


def checked_source(model: str, free: str) -> str:
    """Return the source of drafts that a draft model read and went on with."""
    return f"{model}+{free}"


def looks_back(unread: int, said: int) -> bool:
    """Tell whether so much is read in a pass of its own, `said` tokens into an answer: where there is one to judge."""
    return unread > _WORTH_A_LOOK_BACK and said > 1


class Hybrid:
    """Drafts with the best of free drafters and, where it pays, a draft model."""

    def __init__(
        self,
        free: Sequence[Drafter],
        model: DraftModel | None,
        appraiser: Appraiser,
        text_order: Callable[[Sequence[int]], Sequence[int]] = tuple,
    ) -> None:
        """Take who drafts, who values drafts, and in what order a prompt is for those who copy.

        The end of a prompt that asks to fill a hole is not what the answer goes on from; see `models.fim`.
        """
        self.name = "+".join([*(drafter.name for drafter in free), *([model.name] if model else [])])
        self._free = tuple(free)
        self._text_order = text_order
        self._model = model
        self.appraiser: Appraiser = appraiser
        self.failure = ""
        """What went wrong with the draft model in this answer, which goes on without it."""
        self._prompt_length = 0

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        """Start an answer with all of them."""
        self._prompt_length = len(prompt)
        self.failure = ""
        text = self._text_order(prompt)
        for drafter in self._free:
            drafter.begin(text, sampler)
        if self._model is not None:
            self._model.begin(prompt, sampler)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Return the draft that is expected to gain most."""
        free = self._best_free(context, limit)
        if self._model is None or self.failure:
            return free
        try:
            return self._with_model(self._model, free, context, limit)
        except Cancelled:
            raise
        except LocalspecError as error:
            # What it might have gained is no reason to lose an answer that the target can give alone.
            self.failure = f"{self._model.name} failed: {error.title}"
            _log.warning("%s %s", self.failure, error.cause)
            return free

    def _with_model(self, model: DraftModel, free: Draft, context: Sequence[int], limit: int) -> Draft:
        """Return the draft that is expected to gain most, a free one at hand."""
        wish = self._wish(model, free, context, limit)
        said = len(context) - self._prompt_length
        if wish.ask is not Ask.NOTHING and looks_back(model.unread(context), said):
            self.appraiser.learn(model.name, model.catch_up(context, said))
            wish = self._wish(model, free, context, limit)
        if wish.ask is Ask.NOTHING:
            return free
        given = free.tokens[: wish.length] if wish.ask is Ask.CHECK else ()
        source = checked_source(model.name, free.source) if given else model.name
        draft = model.extend(context, given, limit, partial(self.appraiser.goes_on, source))
        return replace(draft, source=source) if draft.tokens else free

    def _wish(self, model: DraftModel, free: Draft, context: Sequence[int], limit: int) -> Wish:
        """Return how to use the draft model, which then has no more to read than is wished."""
        wish = self.appraiser.wish(free, model.unread(context), limit, skipped=model.skipped)
        if wish.window is not None:
            model.focus(context, wish.window)
        return wish

    def _best_free(self, context: Sequence[int], limit: int) -> Draft:
        drafts = [draft for drafter in self._free if (draft := drafter.propose(context, limit)).tokens]
        if len(drafts) == 1:
            return drafts[0]
        return max(drafts, key=self.appraiser.worth, default=NO_DRAFT)

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Let all of them learn what was emitted."""
        # What a model that failed has in its cache is cut at the next answer.
        for drafter in self._free if self.failure else self._all():
            drafter.accept(emitted, accepted)

    def learn(self, tokens: Sequence[int]) -> None:
        """Let those that keep an index copy from a text."""
        for drafter in self._free:
            if isinstance(drafter, SuffixDrafter):
                drafter.learn(tokens)

    def close(self) -> None:
        """Close all of them."""
        for drafter in self._all():
            drafter.close()

    def _all(self) -> Sequence[Drafter]:
        return (*self._free, *([self._model] if self._model else []))
