"""Combination of drafters: free ones always draft, a draft model only where its expected gain exceeds its cost.

    suffix index alone     it costs nothing
    draft model alone      a pass a token
    both                   the model reads the index's draft in one pass, cuts it where it disagrees, and goes on from
                           there: many of its draft tokens in the time of one (vertical cascade: Chen et al. 2023,
                           CS Drafting, arXiv 2312.11462)

What pays is not decided here: a `DraftModelPolicy` knows what passes cost and how often each source was right.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Protocol

from drafters.alternatives import AlternativeModels, parts_of
from drafters.base import NO_DRAFT, Draft, Drafter, Hindsight, ModelDrafter, ReadsRows, hand_messages
from drafters.suffix import SuffixDrafter
from models.base import Logits
from models.errors import Cancelled, LocalspecError
from models.sampling.sampler import Sampler
from models.text.prompts import Message

_log = logging.getLogger("localspec.drafters")

_READ_ALONG = 16
"""Unread tokens beyond which reading them is a pass of its own, and shows what the model would have drafted of them."""


class Ask(Enum):
    """Kinds of requests to the draft model in a round."""

    NOTHING = "nothing"
    DRAFT = "draft"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Use of the draft model in a round, and the budget that its cost is charged to.

    The drafter reads the first three fields, and hands the whole back to `requested()`.
    """

    ask: Ask = Ask.NOTHING
    length: int = 0
    """Tokens that are expected to be worth drafting; of a free draft to check: so many of its tokens are read."""
    window: int | None = None
    """Read only so many of the context's last tokens; None: all that is unread."""
    unread: int = 1
    """Tokens of the context to be read for it, or for the next probe where nothing is asked."""
    reads_part: bool = False
    """Whether the model has read only the end of the context."""
    reading_seconds: float = 0.0
    """Expected time of its first pass."""
    expected_seconds: float = 0.0
    """Expected time of a draft of one token, to be compared with the real one; 0: not to be compared."""
    is_loan: bool = False
    """Whether the answer may lose more, once, for it."""
    is_probe: bool = False
    """Whether it is paid from what is set aside for probes."""


class DraftModelPolicy(Protocol):
    """Decides when the draft model drafts, and how far. Its answers change nothing."""

    def worth(self, draft: Draft) -> float:
        """Return the expected gain of the best beginning of a draft, in tokens; 0 for one not worth verifying."""

    def request(self, free: Draft, unread: int, limit: int, *, skipped: int = 0) -> ModelRequest:
        """Return how to use the draft model beside a free draft, when it has `unread` tokens to read first.

        `skipped` are those before them that it has not read, and will not.
        """

    def goes_on(self, source: str, confidence: tuple[float, ...]) -> bool:
        """Return whether one more step of the draft model pays after draft tokens of this confidence, 0 to 1 each."""


class DraftModelControl(Protocol):
    """A policy, and the reports of what the drafter did by it.

    Call order in a round: with several draft models `choose()`; `requested()`; `learn()` and a second `requested()` if
    the model had much to read; then, before each step of its own, `read()` and, if the policy lets it go on,
    `stepped()`. After an error of the draft model `failed()` ends the round.
    """

    @property
    def policy(self) -> DraftModelPolicy:
        """Return the policy."""

    def choose(self, unread: Callable[[], Mapping[str, int]]) -> str:
        """Return the name of the one of several draft models that drafts in this round.

        `unread` returns the tokens that each working one has to read first, by name; that takes time.
        """

    def failed(self, name: str) -> None:
        """Take that a draft model failed, and drafts no more in this answer."""

    def requested(self, request: ModelRequest) -> None:
        """Take the request that is made now."""

    def learn(self, source: str, hindsight: Hindsight) -> None:
        """Learn what a draft model would have drafted of a text that is known; its pass is over."""

    def read(self) -> None:
        """Take that the pass of the request is over."""

    def stepped(self) -> None:
        """Take that one more step is made."""


class Eager:
    """Lets the draft model draft whole drafts in every round without a free one: for fixed draft lengths."""

    @property
    def policy(self) -> DraftModelPolicy:
        """Return itself."""
        return self

    def worth(self, draft: Draft) -> float:
        """Return the length."""
        return len(draft.tokens)

    def request(self, free: Draft, unread: int, limit: int, *, skipped: int = 0) -> ModelRequest:  # noqa: ARG002
        """Request a draft, unless a free draft is there already."""
        return ModelRequest() if free.tokens else ModelRequest(Ask.DRAFT, limit)

    def goes_on(self, source: str, confidence: tuple[float, ...]) -> bool:  # noqa: ARG002
        """Return True."""
        return True

    def choose(self, unread: Callable[[], Mapping[str, int]]) -> str:
        """Return the name of the first."""
        return next(iter(unread()))

    def failed(self, name: str) -> None:
        """Do nothing."""

    def requested(self, request: ModelRequest) -> None:
        """Do nothing."""

    def learn(self, source: str, hindsight: Hindsight) -> None:
        """Learn nothing."""

    def read(self) -> None:
        """Do nothing."""

    def stepped(self) -> None:
        """Do nothing."""


def checked_source(model: str, free: str) -> str:
    """Return the source of drafts that a draft model read and went on with."""
    return f"{model}+{free}"


def catches_up_first(unread: int, emitted: int) -> bool:
    """Return whether `unread` tokens get a pass of their own, `emitted` tokens into an answer."""
    return unread > _READ_ALONG and emitted > 1


class Hybrid:
    """Drafts with the best of free drafters and, where it pays, a draft model."""

    def __init__(
        self,
        free: Sequence[Drafter],
        model: ModelDrafter | None,
        control: DraftModelControl,
        text_order: Callable[[Sequence[int]], Sequence[int]] = tuple,
    ) -> None:
        """Take the drafters, the control of the draft model, and the order of a prompt for drafters that copy.

        The end of a prompt that asks for an infill is not what the answer goes on from; see `models.text.fim`.
        """
        self.name = "+".join(drafter.name for drafter in (*free, *parts_of(model)))
        self._free = tuple(free)
        self._readers = tuple(drafter for drafter in free if isinstance(drafter, ReadsRows))
        self._text_order = text_order
        self._model = model
        self._control = control
        self.failures: dict[str, str] = {}
        """Title of the error by the name of the draft model, which drafts no more in this answer."""
        self._prompt_length = 0

    def use(self, control: DraftModelControl) -> None:
        """Let another control decide from the next answer on."""
        self._control = control

    def converse(self, turns: Sequence[Message]) -> None:
        """Hand the messages of the next prompt to the draft model, if it reads them."""
        if self._model is not None:
            hand_messages(self._model, turns)

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        """Start an answer with all of them."""
        self._prompt_length = len(prompt)
        self.failures = {}
        text = self._text_order(prompt)
        for drafter in self._free:
            drafter.begin(text, sampler)
        if self._model is not None:
            self._model.begin(prompt, sampler)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Return the draft that is expected to gain most."""
        free = self._best_free(context, limit)
        if self._model is None or not self._works(self._model):
            return free
        try:
            return self._with_model(self._model, free, context, limit)
        except Cancelled:
            raise
        except LocalspecError as error:
            # Its gain is no reason to lose an answer that the target can give alone.
            self._leave_out(self._model, error)
            return free

    def _works(self, model: ModelDrafter) -> bool:
        """Tell whether a draft model, or one of several, has not failed in this answer."""
        return len(self.failures) < len(parts_of(model))

    def _leave_out(self, model: ModelDrafter, error: LocalspecError) -> None:
        """Let a draft model that failed draft no more in this answer; another one may."""
        self.failures[model.name] = error.title
        _log.warning("%s failed: %s %s", model.name, error.title, error.cause)
        self._control.failed(model.name)
        if isinstance(model, AlternativeModels):
            model.leave_out()

    def _with_model(self, model: ModelDrafter, free: Draft, context: Sequence[int], limit: int) -> Draft:
        """Return the draft that is expected to gain most, a free one at hand."""
        if isinstance(model, AlternativeModels):
            model.use(self._control.choose(partial(model.all_unread, context)))
        limit = min(limit, model.longest)
        request = self._request(model, free, context, limit)
        emitted = len(context) - self._prompt_length
        if request.ask is not Ask.NOTHING and catches_up_first(model.unread(context), emitted):
            self._control.learn(model.name, model.catch_up(context, emitted))
            request = self._request(model, free, context, limit)
        if request.ask is Ask.NOTHING:
            return free
        given = free.tokens[: request.length] if request.ask is Ask.CHECK else ()
        source = checked_source(model.name, free.source) if given else model.name
        if model.drafts_blocks:
            limit = min(limit, max(1, request.length))
        draft = model.extend(context, given, limit, partial(self._goes_on, source))
        return replace(draft, source=source) if draft.tokens else free

    def _request(self, model: ModelDrafter, free: Draft, context: Sequence[int], limit: int) -> ModelRequest:
        """Make a request to the draft model, which then has no more to read than is requested."""
        request = self._control.policy.request(free, model.unread(context), limit, skipped=model.skipped)
        self._control.requested(request)
        if request.window is not None:
            model.focus(context, request.window)
        return request

    def _goes_on(self, source: str, confidence: tuple[float, ...]) -> bool:
        """Return whether to make one more step, and report it."""
        self._control.read()
        goes_on = self._control.policy.goes_on(source, confidence)
        if goes_on:
            self._control.stepped()
        return goes_on

    def _best_free(self, context: Sequence[int], limit: int) -> Draft:
        drafts = [draft for drafter in self._free if (draft := drafter.propose(context, limit)).tokens]
        if len(drafts) == 1:
            return drafts[0]
        return max(drafts, key=self._control.policy.worth, default=NO_DRAFT)

    def read_rows(self, pending: int, draft: Draft, rows: Logits) -> None:
        """Let those that learn from the target's rows read them."""
        for drafter in self._readers:
            drafter.read_rows(pending, draft, rows)

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Let all of them learn what was emitted."""
        # What a model that failed has in its cache is cut at the next answer.
        for drafter in self._all() if self._model is None or self._works(self._model) else self._free:
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
