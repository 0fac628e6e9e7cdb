"""The engine as a program with an event loop uses it: many may ask at once, and what they ask is taken by urgency."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import TypeVar

from app.engine.conversation.messages import Ended, Failed, Message, Ready, Said, Watched
from app.engine.conversation.session import Reading
from app.engine.decoding.request import Question
from app.engine.decoding.round import Clock
from app.engine.runtime.load import LoadPlan, Progress
from app.engine.runtime.thread import Claim, Engine, Job, Urgency
from app.engine.runtime.unexpected import log_unexpected, unexpected
from app.engine.runtime.worker import Worker
from models.errors import LocalspecError

T = TypeVar("T")
AnswerMessage = Reading | Said | Watched | Ended
"""What is told of an answer: the prompt being read, rounds, figures if they are wanted, and the end, always last."""


class AsyncEngine:
    """Takes questions from one event loop to the engine's thread, and brings back what it says."""

    def __init__(self, plan: LoadPlan, clock: Clock = time.perf_counter) -> None:
        """Take what to load; nothing is loaded before `load`."""
        self._engine = Engine(lambda abort: Worker(plan, abort, clock))

    async def load(self, on_progress: Progress = lambda _, __: None) -> Ready:
        """Load target and drafter; `on_progress` is called in the loop with a name and the share read.

        Raises LocalspecError. Cancelling the task stops the load.
        """
        loop = asyncio.get_running_loop()

        def job(worker: Worker) -> Iterator[Message]:
            return worker.load(lambda name, share: _post(loop, on_progress, name, share))

        async with aclosing(self._messages(job, Claim.ALL, Urgency.ANSWER, None)) as messages:
            async for message in messages:
                if isinstance(message, Ready):
                    return message
        raise AssertionError("a load ends with Ready or fails")

    async def answer(
        self,
        question: Question,
        urgency: Urgency = Urgency.ANSWER,
        wait: float | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[AnswerMessage]:
        """Yield what is said to a question; raises LocalspecError, and BusyError if it did not begin in `wait` seconds.

        `on_end` is called in the loop when the engine is through with it, however much is still to be fetched here.
        Cancelling the task, or closing the iterator (use `contextlib.aclosing`), calls the answer off within a round;
        what it read stays in the cache.
        """
        job = _answering(question, urgency)
        async with aclosing(self._messages(job, Claim.SLOT, urgency, wait, on_end)) as messages:
            async for message in messages:
                if isinstance(message, Reading | Said | Watched | Ended):
                    yield message

    async def look(self, job: Callable[[Worker], T]) -> T:
        """Return what a quick look at the loaded models gives, between two rounds of whoever is answered.

        `job` runs on the engine's thread; what it raises is raised here.
        """
        found: list[T] = []
        wrong: list[Exception] = []

        def looking(worker: Worker) -> Iterator[Message]:
            try:
                found.append(job(worker))
            except Exception as error:  # it is the asker's, and raised there
                wrong.append(error)
            except BaseException as error:
                # Raised in the loop, the panic of a library would end more than this request.
                log_unexpected(error)
                wrong.append(unexpected(error))
            yield from ()

        async with aclosing(self._messages(looking, Claim.NOTHING, Urgency.COMPLETION, None)) as messages:
            async for _ in messages:
                pass
        if wrong:
            raise wrong[0]
        return found[0]

    @property
    def failure(self) -> LocalspecError | None:
        """Why the engine's thread has died; None while it runs."""
        return self._engine.failure

    def close(self) -> None:
        """Stop everything and free the models."""
        self._engine.close()

    async def _messages(
        self,
        job: Job,
        claim: Claim,
        urgency: Urgency,
        wait: float | None,
        on_end: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[Message]:
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Message | None]()

        def hear(message: Message | None) -> None:
            _post(loop, queue.put_nowait, message)
            if message is None:
                _post(loop, on_end)

        ticket = self._engine.submit(job, hear, claim=claim, urgency=urgency, wait=wait)
        over = False
        try:
            while (message := await queue.get()) is not None:
                if isinstance(message, Failed):
                    raise message.error
                yield message
            over = True
        finally:
            if not over:
                self._engine.cancel(ticket)


def _answering(question: Question, urgency: Urgency) -> Job:
    return lambda worker: worker.answer(question, urgency)


def _post(loop: asyncio.AbstractEventLoop, take: Callable[..., object], *what: object) -> None:
    """Hand something to the loop from any thread; a loop that is closed wants nothing any more."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(take, *what)
