"""The one loaded model as requests see it: ready or not, how many may ask, and answers with their figures."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from app.engine.conversation.messages import Ready, Said
from app.engine.decoding.ending import Finish
from app.engine.decoding.stats import Stats
from app.engine.runtime.async_engine import AsyncEngine
from app.engine.runtime.load import Progress
from app.engine.runtime.worker import Worker
from app.serve.aside import Aside
from app.serve.replies.answer import Answer
from app.serve.replies.errors import Refused, refusal
from app.serve.replies.metrics import Metrics
from app.serve.requests.asked import Asked, Outcome, Piece
from app.serve.requests.prompt_reuse import PromptReuse
from app.serve.settings import ServePlan
from models.base import Vocab
from models.errors import BusyError, Cancelled, LocalspecError, UsageError
from models.forms.grammar import Grammar
from models.system.deep_stack import call_deep
from models.text.fim import FimFormat, Hole
from models.text.tool_calls import CallFormat

if TYPE_CHECKING:
    from models.forms.grammar_state import Compiler

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
    calls: CallFormat | None
    """How it calls tools; None: it does not."""
    since: int
    """When it was loaded, in seconds since 1970."""


class Service:
    """Answers all clients out of one model."""

    def __init__(self, settings: ServePlan, async_engine: AsyncEngine) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.prompt_reuse = PromptReuse()
        """What editors asked last."""
        self.stop = asyncio.Event()
        """Set when what still runs must end."""
        self.aside = Aside()
        """Threads for what clients send."""
        self._async_engine = async_engine
        self._loaded: Loaded | None = None
        self._admitted = 0
        self._warming = 0
        """Requests that only warm the cache: nobody who waits for an answer is refused for their sake."""

    @property
    def loaded(self) -> Loaded:
        """What is served; raises Refused as long as it loads, and when the engine's thread has died."""
        if self._async_engine.failure is not None:
            raise Refused(503, "The engine has ended after an internal error: restart the server.", code="engine_ended")
        if self._loaded is None:
            raise Refused(503, "The model is loading.", code="loading")
        return self._loaded

    async def load(self, on_progress: Progress) -> Ready:
        """Load the model; raises LocalspecError."""
        ready = await self._async_engine.load(on_progress)
        ready = replace(ready, model=_writable(ready.model), drafter=_writable(ready.drafter))
        size = await self._async_engine.look(lambda worker: worker.vocab.size)
        fills = await self._async_engine.look(lambda worker: FimFormat.of(worker.vocab) is not None)
        name = _writable(self.settings.alias) or ready.model
        calls = await self._async_engine.look(lambda worker: worker.calls)
        with suppress(UsageError):
            # It holds Python's lock for half a second: later every client would wait for the first form.
            await self._async_engine.look(_compiler)
        self._loaded = Loaded(ready, name, size, fills, calls, int(time.time()))
        return ready

    async def look(self, job: Callable[[Vocab], T]) -> T:
        """Return what the vocabulary tells, which the engine does not wait for; raises Refused as long as it loads."""
        _ = self.loaded
        vocab = await self._async_engine.look(lambda worker: worker.vocab)
        return await self.aside.text(lambda: call_deep(lambda: job(vocab)))

    async def prepare(self, grammar: Grammar | None) -> None:
        """Compile the form of an answer for the vocabulary, before the engine asks for it.

        Raises UsageError for one that this model can't follow.
        """
        if grammar is None:
            return
        vocab = await self._async_engine.look(lambda worker: worker.vocab)
        compiles = await self._async_engine.look(_compiler)
        await self.aside.form(lambda: compiles.matcher(grammar, vocab))

    def close(self) -> None:
        """Wait for work on what clients sent; the model may be freed after it."""
        self.aside.close()

    async def speak(self, asked: Asked, *, further: bool = False) -> AsyncGenerator[Piece | Outcome]:
        """Yield an answer as it becomes certain, empty pieces while its prompt is read, and last how it ended.

        Raises Refused, but not because a `further` prompt of a request has to wait: what was said to those before it
        would be lost. Closing the generator calls the answer off within a round.
        """
        size = self.loaded.ready.context_size
        asked = _sized(asked, size)
        if asked.warms and self._warming >= self.loaded.ready.slots:
            # Refused, it would be shown as an error; its editor sends the next one anyway.
            yield Outcome("", "", Finish.CANCELLED, Stats().snapshot())
            return
        with ExitStack() as place, self.metrics.meter(asked.kind) as meter:
            # Whoever reads slowly keeps nobody out: the place is free when the engine is.
            place.enter_context(self._admission(asked, further=further))
            answer = Answer(asked)
            wait = None if further else self.settings.limits.seconds
            try:
                async with aclosing(
                    self._async_engine.answer(asked.question, asked.urgency, wait, place.close)
                ) as messages:
                    async for message in messages:
                        meter.heard(token=isinstance(message, Said))
                        if (said := answer.hear(message)) is not None:
                            yield said
                        if answer.outcome is not None:
                            break
            except (GeneratorExit, asyncio.CancelledError):
                self.metrics.cancelled(asked.kind, answer.stats, warms=asked.warms)
                raise
            except LocalspecError as error:
                if not (asked.warms and isinstance(error, Cancelled | BusyError)):
                    raise refusal(error, size) from error
                # It made room for somebody who does wait, or waited too long itself.
                answer.end("", Finish.CANCELLED)
            outcome = answer.outcome
            assert outcome is not None, "the engine's last message is the end"
            meter.ended(outcome, warms=asked.warms)
            yield outcome

    async def whole(self, asked: Asked, *, further: bool = False) -> Outcome:
        """Return a whole answer, to a `further` prompt however long it waits; raises Refused."""
        async with aclosing(self.speak(asked, further=further)) as speech:
            async for said in speech:
                if isinstance(said, Outcome):
                    return said
        raise AssertionError("an answer ends with an outcome")

    @contextmanager
    def _admission(self, asked: Asked, *, further: bool) -> Iterator[None]:
        """Let in as many as may be answered or wait; raises Refused."""
        if not (asked.warms or further) and self._admitted >= self.loaded.ready.slots + self.settings.limits.waiting:
            raise Refused(503, "Too many requests are waiting.", code="busy")
        self._warming += asked.warms
        self._admitted += not asked.warms
        try:
            yield
        finally:
            self._warming -= asked.warms
            self._admitted -= not asked.warms


def _compiler(worker: Worker) -> "Compiler":
    from models.forms.grammar_state import compiler

    return compiler(worker.vocab)


def _writable(name: str) -> str:
    """Return a name that JSON can hold: that of a file may have bytes that are no text, which come as surrogates."""
    return name.encode(errors="replace").decode()


def _sized(asked: Asked, size: int) -> Asked:
    """Cut a request to what can matter; raises Refused for turns that can't fit in a context of `size` tokens."""
    question, most = asked.question, size * _LONGEST_TOKEN
    question = replace(question, prediction=question.prediction[:most])
    if question.hole is not None:
        return replace(asked, question=replace(question, hole=_cut(question.hole, most)))
    length = sum(turn.size for turn in question.turns) + sum(tool.size for tool in question.tools)
    if length > most:
        message = f"The prompt has {length:,} characters; the context has room for {size:,} tokens."
        raise Refused(400, message, code="context_length_exceeded", n_ctx=size)
    return replace(asked, question=question)


def _cut(hole: Hole, most: int) -> Hole:
    """Return a hole with at most so many characters before it, as many after it, and as many in the last chunks."""
    chunks, room = [], most
    for chunk in reversed(hole.chunks):
        room -= len(chunk.filename) + len(chunk.text)
        if room < 0:
            break
        chunks.append(chunk)
    return replace(hole, prefix=hole.prefix[-most:], suffix=hole.suffix[:most], chunks=tuple(reversed(chunks)))
