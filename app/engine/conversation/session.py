"""Cache session of one conversation: every answer starts from the longest prefix that the cache holds.

A new turn, a regenerated answer and an undone turn are alike: each is a prompt that shares its beginning with the
cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.engine.decoding.controller import Controller
from app.engine.decoding.ending import Ending
from app.engine.decoding.logprobs import Likelihood, scored, unscored
from app.engine.decoding.round import Clock, Round
from app.engine.decoding.shared_pass import Pass
from app.engine.decoding.speculate import rounds_and_passes
from app.engine.decoding.stats import Stats
from drafters.base import Drafter
from models.base import LanguageModel, common_prefix
from models.errors import context_full
from models.sampling.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Reading:
    """Progress of reading the prompt; the first one comes before anything is read, and has the reused tokens."""

    done: int
    """Prompt tokens in the cache, reused ones included."""
    total: int


@dataclass(frozen=True, slots=True)
class Scored:
    """Log probabilities of the next tokens of a prompt, as the target has read them."""

    likelihoods: tuple[Likelihood, ...]


class Session:
    """Session of prompts and answers with one target and one drafter; the cache stays between answers."""

    def __init__(self, target: LanguageModel, drafter: Drafter, clock: Clock) -> None:
        self.target = target
        self.drafter = drafter
        self.tokens: list[int] = []
        """Tokens of the last prompt and answer; the cache holds the first `target.length` of them."""
        self.stats = Stats()
        """Counters of the running or last answer."""
        self._clock = clock
        self._begun: Drafter | None = None
        """The drafter that has begun an answer to this text."""

    def answer(
        self,
        prompt: Sequence[int],
        sampler: Sampler,
        ending: Ending,
        controller: Controller,
        scores: int | None = None,
    ) -> Iterator[Reading | Scored | Pass | Round]:
        """Yield the progress of the prompt, then the rounds of its answer, each after its pass if that may be shared.

        With `scores` the whole prompt is read, for the log probability of each token, and that many likely ones.
        Stopping early keeps the tokens read and emitted. Raises ContextFullError before anything is decoded.
        """
        started = self._clock()
        yield from self.read(prompt, scores)
        begun, waited = self._begin(sampler), 0.0
        events = rounds_and_passes(self.target, self.drafter, sampler, self.tokens, ending, controller, self._clock)
        for event in events:
            if isinstance(event, Round):
                event = replace(event, draft_seconds=event.draft_seconds + begun, wait_seconds=waited)
                begun = waited = 0.0
                self.stats.observe(event)
                if self.stats.first_token_seconds is None:
                    self.stats.first_token_seconds = self._clock() - started
            left = self._clock()
            yield event
            # A shared pass was done between the yields; its time belongs to the round.
            waited += self._clock() - left - (event.seconds or 0.0 if isinstance(event, Pass) else 0.0)

    def read(self, prompt: Sequence[int], scores: int | None = None) -> Iterator[Reading | Scored]:
        """Read a prompt up to its last token without an answer; raises as `answer` does."""
        started = self._clock()
        try:
            yield from self._reading(prompt, scores)
        finally:
            self.stats.prompt_seconds = self._clock() - started

    def adopt(self, tokens: Sequence[int]) -> None:
        """Take the text that the target's cache holds now, after it came from elsewhere than this session."""
        assert len(tokens) == self.target.length, "a cache and its text have one length"
        self.tokens, self._begun = list(tokens), None

    @property
    def drafter_has_begun(self) -> bool:
        """Whether the drafter has begun an answer to the text, so that it can read the text."""
        return self._begun is self.drafter

    def _begin(self, sampler: Sampler) -> float:
        """Start the drafter, and return its seconds, which are reported with those of the first round.

        The controller does not count them: they are spent whether it drafts or not.
        """
        started = self._clock()
        self.drafter.begin(self.tokens, sampler)
        self._begun = self.drafter
        return self._clock() - started

    def _reading(self, prompt: Sequence[int], scores: int | None) -> Iterator[Reading | Scored]:
        if len(prompt) > self.target.context_size:
            raise context_full(len(prompt) + 1, self.target.context_size)
        if scores is not None:
            # A token that is in the cache already has no row of logits any more.
            self.target.rewind(0)
        self._begun = None
        previous, reused = self.tokens, self._rewind_to_common(prompt)
        self.stats = Stats(prompt_tokens=len(prompt), reused_tokens=reused)
        yield Reading(reused, len(prompt))
        self._read_last_sibling(previous)
        yield from self._read(scores)

    def _rewind_to_common(self, prompt: Sequence[int]) -> int:
        """Cut the cache to the prefix shared with a prompt, make the prompt the text; return the reused tokens."""
        held = self.tokens[: self.target.length]
        # The last token stays pending: its row is the first one needed.
        same = min(common_prefix(held, prompt), len(prompt) - 1)
        if not self.target.can_rewind(same):
            same = 0
        self.target.rewind(same)
        self.tokens = list(prompt)
        return same

    def _read_last_sibling(self, previous: Sequence[int]) -> None:
        """Read the last but one emitted token in a pass of its own, where the cache lacks it.

        A sibling accepted just before the end is in no cache. Plain decoding has read it in a pass of its own, and
        reads the rest of the prompt after it: passes that begin elsewhere may round differently.
        """
        place = self.target.length
        is_last = place == len(previous) - 2 and place < len(self.tokens) - 1
        if is_last and self.tokens[: place + 1] == list(previous[:-1]):
            self.target.decode([self.tokens[place]], rows=1)

    def _read(self, scores: int | None) -> Iterator[Reading | Scored]:
        """Decode the prompt up to its last token, pass by pass, so that it can be shown and stopped."""
        total, width = len(self.tokens), self.target.batch_size
        if scores is not None:
            width = min(width, self.target.max_rows)
            yield Scored((unscored(self.tokens[0]),))
        while self.target.length < total - 1:
            start = self.target.length
            end = min(start + width, total - 1)
            rows = self.target.decode(self.tokens[start:end], rows=0 if scores is None else end - start)
            if scores is not None:
                yield Scored(scored(rows, self.tokens[start + 1 : end + 1], scores))
            yield Reading(end, total)
