"""One conversation's place in the target's cache: every answer starts from the longest prefix it already holds.

A new turn, a regenerated answer and an undone turn are one thing here: a prompt that shares its beginning with the
cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.engine.decoding.controller import Controller
from app.engine.decoding.ending import Ending
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
    """Progress in reading the prompt; the first one comes before anything is read, and tells what is reused."""

    done: int
    """Prompt tokens in the cache, reused ones included."""
    total: int


class Session:
    """Answers prompts with one target and one drafter, keeping the cache between answers."""

    def __init__(self, target: LanguageModel, drafter: Drafter, clock: Clock) -> None:
        self.target = target
        self.drafter = drafter
        self.tokens: list[int] = []
        """Tokens of the last prompt and answer; the cache holds the first `target.length` of them."""
        self.stats = Stats()
        """Counters of the answer that is running or was last."""
        self._clock = clock

    def answer(
        self, prompt: Sequence[int], sampler: Sampler, ending: Ending, controller: Controller
    ) -> Iterator[Reading | Pass | Round]:
        """Yield the reading of the prompt, then the rounds of its answer, and each pass that may be shared before.

        Stopping early keeps what was read and said. Raises ContextFullError before anything is decoded.
        """
        started = self._clock()
        yield from self.read(prompt)
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
            # A pass that was shared was done meanwhile, and is the round's own time.
            waited += self._clock() - left - (event.seconds or 0.0 if isinstance(event, Pass) else 0.0)

    def read(self, prompt: Sequence[int]) -> Iterator[Reading]:
        """Read a prompt up to its last token, and say nothing; raises as `answer` does."""
        started = self._clock()
        try:
            yield from self._reading(prompt)
        finally:
            self.stats.prompt_seconds = self._clock() - started

    def _begin(self, sampler: Sampler) -> float:
        """Let the drafter begin, and return its seconds, which are told with those of the first round.

        The controller never hears of them: they are spent whether it drafts or not, and an answer that may not lose
        any more would not win them back either.
        """
        started = self._clock()
        self.drafter.begin(self.tokens, sampler)
        return self._clock() - started

    def _reading(self, prompt: Sequence[int]) -> Iterator[Reading]:
        if len(prompt) > self.target.context_size:
            raise context_full(len(prompt) + 1, self.target.context_size)
        said, reused = self.tokens, self._rewind_to_common(prompt)
        self.stats = Stats(prompt_tokens=len(prompt), reused_tokens=reused)
        yield Reading(reused, len(prompt))
        self._read_last_sibling(said)
        yield from self._read()

    def _rewind_to_common(self, prompt: Sequence[int]) -> int:
        """Cut the cache to what it shares with a prompt, and make the prompt the text; return the tokens saved."""
        held = self.tokens[: self.target.length]
        # The last token stays pending: its row is the first to be asked for.
        same = min(common_prefix(held, prompt), len(prompt) - 1)
        if not self.target.can_rewind(same):
            same = 0
        self.target.rewind(same)
        self.tokens = list(prompt)
        return same

    def _read_last_sibling(self, said: Sequence[int]) -> None:
        """Read the token that was said last but one by itself, where it is still to be read.

        A sibling kept just before the end is in no cache. Plain decoding has read it in a pass of its own, and reads
        the rest of the prompt from behind it: passes that begin elsewhere may round otherwise.
        """
        place = self.target.length
        if place == len(said) - 2 and place < len(self.tokens) - 1 and self.tokens[: place + 1] == list(said[:-1]):
            self.target.decode([self.tokens[place]], rows=1)

    def _read(self) -> Iterator[Reading]:
        """Decode the prompt up to its last token, pass by pass, so that it can be watched and stopped."""
        total = len(self.tokens)
        while self.target.length < total - 1:
            start = self.target.length
            end = min(start + self.target.batch_size, total - 1)
            self.target.decode(self.tokens[start:end], rows=0)
            yield Reading(end, total)
