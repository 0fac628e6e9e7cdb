"""The loaded model as requests use it: readiness, admission, and answers with their figures."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from app.engine.conversation.messages import Ready, Said
from app.engine.decoding.ending import Finish
from app.engine.decoding.stats import Stats
from app.engine.runtime.async_engine import AsyncEngine
from app.engine.runtime.load import LoadPlan, Progress
from app.engine.runtime.worker import Worker
from app.serve.embeddings.shelf import EmbeddingShelf
from app.serve.parsing_threads import ParsingThreads
from app.serve.replies.answer import AnswerCollector
from app.serve.replies.errors import Refused, refusal
from app.serve.replies.metrics import Metrics
from app.serve.requests.engine_request import EngineRequest, Outcome, Piece
from app.serve.requests.prompt_reuse import PromptReuse
from app.serve.settings import ServePlan
from app.serve.swapping.choices import ModelChoices
from app.serve.swapping.gate import ModelGate
from app.serve.swapping.room import check_room
from models.base import Vocab
from models.errors import BusyError, Cancelled, LocalspecError, UsageError
from models.forms.grammar import Grammar
from models.system.deep_stack import call_deep
from models.text.fim import FimFormat, Infill
from models.text.tool_calls import CallFormat

if TYPE_CHECKING:
    from models.forms.grammar_state import Compiler

T = TypeVar("T")
_log = logging.getLogger("localspec.serve")
_LONGEST_TOKEN = 64
"""Characters per token that no text exceeds on average: counting tokens of a longer text would delay other requests."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The loaded model and its abilities."""

    ready: Ready
    vocab: Vocab
    """Vocabulary of the target, which any thread may use."""
    name: str
    """Name of the model in replies."""
    fills: bool
    """Whether it supports infill."""
    calls: CallFormat | None
    """Its format of tool calls; None: it calls no tools."""
    since: int
    """Time of loading, in seconds since 1970."""

    @property
    def tokens(self) -> int:
        """Size of its vocabulary, in tokens."""
        return self.vocab.size


class Service:
    """Answers the requests of all clients with one model."""

    def __init__(self, settings: ServePlan, async_engine: AsyncEngine) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.prompt_reuse = PromptReuse()
        """The last infill prompts of each client."""
        self.stop = asyncio.Event()
        """Set when running answers must end."""
        self.parsing = ParsingThreads()
        """Threads for parsing requests."""
        limits = settings.limits
        self.gate = ModelGate(self._swap, settings.plan.slots + limits.waiting, limits.seconds)
        self._async_engine = async_engine
        self.shelf = None if settings.embedder is None else EmbeddingShelf(settings.embedder, settings.plan.options)
        """The model for embeddings; None: there is none."""
        self._loaded: Loaded | None = None
        self._admitted = 0
        self._warming = 0
        """Requests that only warm the cache. They never cause the refusal of a request that waits for an answer."""

    def check(self) -> None:
        """Raise Refused while the first model loads, and after the engine's thread has died."""
        if not self.gate.last or self._async_engine.failure is not None:
            _ = self.loaded

    @property
    def choices(self) -> ModelChoices:
        """The models that requests may name."""
        return self.settings.choices

    @property
    def loaded(self) -> Loaded:
        """The loaded model; raises Refused while it loads, and after the engine's thread has died."""
        if self._async_engine.failure is not None:
            raise Refused(503, "The engine stopped after an internal error. Restart the server.", code="engine_ended")
        if self._loaded is None and self.gate.last:
            raise Refused(503, "No model is loaded now: the next request that needs one loads it.", code="unloaded")
        if self._loaded is None:
            raise Refused(503, "The model is loading.", code="loading")
        return self._loaded

    async def load(self, on_progress: Progress) -> Ready:
        """Load the model, and the one for embeddings; raises LocalspecError."""
        if self.shelf is not None:
            await self.shelf.load()
        ready = await self._opened(self.choices.first, on_progress)
        self.gate.opened(self.choices.first)
        return ready

    async def unload(self) -> None:
        """Free the model if no request needs it."""
        await self.gate.unload(self._free)

    async def _free(self) -> None:
        self._loaded = None
        await self._async_engine.unload()
        _log.info("unloaded %s", self.gate.last)

    async def _swap(self, name: str) -> None:
        """Load a model in place of the loaded one; raises Refused where it can't fit, and LocalspecError."""
        choices, first, current = self.choices, self.settings.plan, self.gate.current
        plan = choices.plan(name, first)
        await asyncio.to_thread(check_room, plan, None if current is None else choices.plan(current, first))
        self._loaded, self.gate.current = None, None
        ready = await self._opened(name, lambda _, __: None, plan)
        for note in (f"loaded {name}, drafter {ready.drafter}", *ready.notes):
            _log.info("%s", note)

    async def _opened(self, id_: str, on_progress: Progress, plan: LoadPlan | None = None) -> Ready:
        ready = await self._async_engine.load(on_progress, plan)
        ready = replace(ready, model=_writable(ready.model), drafter=_writable(ready.drafter))
        vocab = await self._async_engine.look(lambda worker: worker.vocab)
        fills = await self._async_engine.look(lambda worker: FimFormat.of(worker.vocab) is not None)
        name = id_ if self.choices.is_open else _writable(self.settings.alias) or ready.model
        calls = await self._async_engine.look(lambda worker: worker.calls)
        with suppress(UsageError):
            # Building it holds Python's lock for half a second; later, the first form would delay every client.
            await self._async_engine.look(_compiler)
        self._loaded = Loaded(ready, vocab, name, fills, calls, int(time.time()))
        return ready

    async def look(self, job: Callable[[Vocab], T]) -> T:
        """Return a value computed from the vocabulary, without waiting for the engine; raises Refused while loading."""
        vocab = self.loaded.vocab
        return await self.parsing.text(lambda: call_deep(lambda: job(vocab)))

    async def on_engine(self, job: Callable[[Worker], T]) -> T:
        """Return the result of a short job on the engine's thread; raises Refused, also for its LocalspecError."""
        size = self.loaded.ready.context_size
        try:
            return await self._async_engine.look(job)
        except LocalspecError as error:
            raise refusal(error, size) from error

    async def count(self, request: EngineRequest) -> int:
        """Return the number of tokens of a conversation's prompt; raises Refused, LocalspecError."""
        question = _sized(request, self.loaded.ready.context_size).question
        return await self._async_engine.look(lambda worker: worker.count(question))

    async def prepare(self, grammar: Grammar | None) -> None:
        """Compile the form of an answer for the vocabulary, before the engine needs it.

        Raises UsageError for a form that this model can't follow.
        """
        if grammar is None:
            return
        vocab = self.loaded.vocab
        compiles = await self._async_engine.look(_compiler)
        await self.parsing.form(lambda: compiles.matcher(grammar, vocab))

    def close(self) -> None:
        """Wait for running parsing work; the model may be freed afterwards."""
        self.parsing.close()
        if self.shelf is not None:
            self.shelf.close()

    async def speak(self, request: EngineRequest, *, further: bool = False) -> AsyncGenerator[Piece | Outcome]:
        """Yield an answer in certain pieces, empty ones while its prompt is read, and its outcome last.

        Raises Refused, except for the waiting of a `further` prompt of a request: that would lose the earlier answers.
        Closing the generator cancels the answer within a round.
        """
        size = self.loaded.ready.context_size
        request = _sized(request, size)
        if request.warms and self._warming >= self.loaded.ready.slots:
            # A refusal would appear as an error in the editor, which sends the next request anyway.
            yield Outcome("", "", Finish.CANCELLED, Stats().snapshot())
            return
        with ExitStack() as place, self.metrics.meter(request.kind) as meter:
            # The slot is free when the engine is done, so a slow reader blocks no other client.
            place.enter_context(self._admission(request, further=further))
            answer = AnswerCollector(request)
            wait = None if further else self.settings.limits.seconds
            try:
                async with aclosing(
                    self._async_engine.answer(request.question, request.urgency, wait, place.close)
                ) as messages:
                    async for message in messages:
                        meter.count(token=isinstance(message, Said))
                        if (event := answer.hear(message)) is not None:
                            yield event
                        if answer.outcome is not None:
                            break
            except (GeneratorExit, asyncio.CancelledError):
                self.metrics.cancelled(request.kind, answer.stats, warms=request.warms)
                raise
            except LocalspecError as error:
                if not (request.warms and isinstance(error, Cancelled | BusyError)):
                    raise refusal(error, size) from error
                # It was dropped for a waiting request, or waited too long itself.
                answer.end("", Finish.CANCELLED)
            outcome = answer.outcome
            assert outcome is not None, "the engine's last message is the end"
            meter.ended(outcome, warms=request.warms)
            yield outcome

    async def whole(self, request: EngineRequest, *, further: bool = False) -> Outcome:
        """Return a whole answer; a `further` prompt may wait without limit. Raises Refused."""
        async with aclosing(self.speak(request, further=further)) as speech:
            async for event in speech:
                if isinstance(event, Outcome):
                    return event
        raise AssertionError("an answer ends with an outcome")

    @contextmanager
    def _admission(self, request: EngineRequest, *, further: bool) -> Iterator[None]:
        """Admit a request while there is room to run or wait; raises Refused."""
        if not (request.warms or further) and self._admitted >= self.loaded.ready.slots + self.settings.limits.waiting:
            raise Refused(503, "Too many requests are waiting. Try again later.", code="busy")
        self._warming += request.warms
        self._admitted += not request.warms
        try:
            yield
        finally:
            self._warming -= request.warms
            self._admitted -= not request.warms


def _compiler(worker: Worker) -> "Compiler":
    from models.forms.grammar_state import compiler

    return compiler(worker.vocab)


def _writable(name: str) -> str:
    """Return a name that JSON can hold: a file name may have undecodable bytes, which appear as surrogates."""
    return name.encode(errors="replace").decode()


def _sized(request: EngineRequest, size: int) -> EngineRequest:
    """Cut a request to the part that can matter; raises Refused for turns too long for a context of `size` tokens."""
    question, most = request.question, size * _LONGEST_TOKEN
    question = replace(question, prediction=question.prediction[:most])
    if question.infill is not None:
        return replace(request, question=replace(question, infill=_cut(question.infill, most)))
    length = sum(turn.size for turn in question.turns) + sum(tool.size for tool in question.tools)
    if length > most:
        message = f"The prompt has {length:,} characters; the context has room for {size:,} tokens."
        raise Refused(400, message, code="context_length_exceeded", n_ctx=size)
    return replace(request, question=question)


def _cut(infill: Infill, most: int) -> Infill:
    """Return an infill request cut to so many characters before the gap, after it, and in the last chunks."""
    chunks, room = [], most
    for chunk in reversed(infill.chunks):
        room -= len(chunk.filename) + len(chunk.text)
        if room < 0:
            break
        chunks.append(chunk)
    return replace(infill, prefix=infill.prefix[-most:], suffix=infill.suffix[:most], chunks=tuple(reversed(chunks)))
