"""The one loaded model as requests see it: ready or not, how many may ask, and answers with their figures."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from app.desk import Desk
from app.engine.ending import Finish
from app.engine.messages import Ready, Said
from app.engine.question import Question
from app.engine.thread import Urgency
from app.serve.answer import Answer
from app.serve.asked import Asked, Outcome
from app.serve.errors import Refused, refusal
from app.serve.metrics import Metrics
from app.serve.settings import ServePlan
from models.base import Vocab
from models.errors import Cancelled, LocalspecError
from models.fim import FimFormat

T = TypeVar("T")
_LONGEST_TOKEN = 64
"""Characters a token that no text has on the average: counting what is longer would only keep others waiting."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is served."""

    ready: Ready
    name: str
    """What replies call the model."""
    tokens: int
    """Size of its vocabulary."""
    fills: bool
    """Whether it can fill in code."""
    since: int
    """When it was loaded, in seconds since 1970."""


class Service:
    """Answers all clients out of one model."""

    def __init__(self, settings: ServePlan, desk: Desk) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.stop = asyncio.Event()
        """Set when what still runs must end."""
        self._desk = desk
        self._loaded: Loaded | None = None
        self._admitted = 0
        self._reading_on: asyncio.Task[None] | None = None

    @property
    def loaded(self) -> Loaded:
        """What is served; raises Refused as long as it loads."""
        if self._loaded is None:
            raise Refused(503, "The model is loading.", code="loading")
        return self._loaded

    async def load(self, on_progress: Callable[[str, float], None]) -> Ready:
        """Load the model; raises LocalspecError."""
        ready = await self._desk.load(on_progress)
        size = await self._desk.look(lambda worker: worker.vocab.size)
        fills = await self._desk.look(lambda worker: FimFormat.of(worker.vocab) is not None)
        self._loaded = Loaded(ready, self.settings.alias or ready.model, size, fills, int(time.time()))
        return ready

    async def look(self, job: Callable[[Vocab], T]) -> T:
        """Return what the vocabulary tells; raises Refused as long as it loads."""
        _ = self.loaded
        return await self._desk.look(lambda worker: job(worker.vocab))

    async def speak(self, asked: Asked) -> AsyncGenerator[str | Outcome]:
        """Yield the text of an answer as it becomes certain, "" while its prompt is read, and last how it ended.

        Raises Refused. Closing the generator calls the answer off within a round.
        """
        size = self.loaded.ready.context_size
        asked = _sized(asked, size)
        with self._admission(), self.metrics.meter(asked.kind) as meter:
            answer = Answer(asked, lambda: meter.prompt_seconds)
            wait = self.settings.limits.seconds
            try:
                async with aclosing(self._desk.answer(asked.question, asked.urgency, wait)) as messages:
                    async for message in messages:
                        meter.heard(token=isinstance(message, Said))
                        if (said := answer.hear(message)) is not None:
                            yield said
                        if answer.outcome is not None:
                            break
            except (GeneratorExit, asyncio.CancelledError):
                self.metrics.cancelled(asked.kind, answer.stats)
                raise
            except LocalspecError as error:
                if not (asked.warms and isinstance(error, Cancelled)):
                    raise refusal(error, size) from error
                # It made room for somebody who does wait.
                answer.end("", Finish.CANCELLED)
            outcome = answer.outcome
            assert outcome is not None, "the engine's last message is the end"
            meter.ended(outcome, warms=asked.warms)
            self._read_on_after(asked, outcome)
            yield outcome

    async def whole(self, asked: Asked) -> Outcome:
        """Return a whole answer; raises Refused."""
        async with aclosing(self.speak(asked)) as speech:
            async for said in speech:
                if isinstance(said, Outcome):
                    return said
        raise AssertionError("an answer ends with an outcome")

    @contextmanager
    def _admission(self) -> Iterator[None]:
        """Let in as many as may be answered or wait; raises Refused."""
        if self._admitted >= self.loaded.ready.lanes + self.settings.limits.waiting:
            raise Refused(503, "Too many requests are waiting.", code="busy")
        self._admitted += 1
        try:
            yield
        finally:
            self._admitted -= 1

    def _read_on_after(self, asked: Asked, outcome: Outcome) -> None:
        """Read the rest of a prompt that took too long while nobody asks: its next request then finds it read."""
        if outcome.finish is Finish.TIME and outcome.stats.emitted == 0 and not self.stop.is_set():
            if self._reading_on is not None:
                self._reading_on.cancel()
            question = replace(asked.question, max_tokens=0, reading_seconds=None)
            self._reading_on = asyncio.create_task(self._read(question))

    async def _read(self, question: Question) -> None:
        with suppress(LocalspecError):
            async with aclosing(self._desk.answer(question, Urgency.IDLE)) as messages:
                async for _ in messages:
                    pass


def _sized(asked: Asked, size: int) -> Asked:
    """Cut what is around a hole to what can matter; raises Refused for turns that can't fit in a context of `size`."""
    question, most = asked.question, size * _LONGEST_TOKEN
    if question.hole is not None:
        hole = question.hole
        hole = replace(hole, prefix=hole.prefix[-most:], suffix=hole.suffix[:most])
        return replace(asked, question=replace(question, hole=hole))
    length = sum(len(turn.text) for turn in question.turns)
    if length > most:
        message = f"The prompt has {length:,} characters; the context has room for {size:,} tokens."
        raise Refused(400, message, code="context_length_exceeded", n_ctx=size)
    return asked
