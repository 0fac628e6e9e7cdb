"""Asynchronous engine for programs with an event loop: many questions at once, taken by urgency."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from app.engine.conversation.messages import Ended, Failed, Message, PromptScored, Ready, Said, Watched
from app.engine.conversation.session import Reading
from app.engine.decoding.request import Question
from app.engine.decoding.round import Clock
from app.engine.runtime.jobs import Claim, Job, Urgency
from app.engine.runtime.load import LoadPlan, Progress
from app.engine.runtime.thread import Engine
from app.engine.runtime.unexpected import log_unexpected, unexpected
from app.engine.runtime.worker import Worker
from models.errors import LocalspecError

T = TypeVar("T")
AnswerMessage = Reading | PromptScored | Said | Watched | Ended
"""Messages of an answer: progress of the prompt, rounds, figures if asked for, and the end, always last."""


class AsyncEngine:
    """Engine for one event loop: passes questions to the engine thread, and its messages back."""

    def __init__(self, plan: LoadPlan, clock: Clock = time.perf_counter) -> None:
        """Take the load plan; nothing is loaded before `load`."""
        self._engine = Engine(lambda abort: Worker(plan, abort, clock), Worker.read_in_pause)

    async def load(self, on_progress: Progress = lambda _, __: None, plan: LoadPlan | None = None) -> Ready:
        """Load target and drafter; `on_progress` is called in the loop with a name and the share read, 0 to 1.

        With a plan its models take the place of the loaded ones, which are freed first, when all answers have ended.
        Raises LocalspecError; then no model is loaded. Cancelling the task stops the load.
        """
        loop = asyncio.get_running_loop()

        def job(worker: Worker) -> Iterator[Message]:
            tell = partial(_post, loop, on_progress)
            return worker.load(tell, plan, frees_first=plan is not None)

        async with aclosing(self._messages(job, Claim.ALL, Urgency.ANSWER, None)) as messages:
            async for message in messages:
                if isinstance(message, Ready):
                    return message
        raise AssertionError("a load ends with Ready or fails")

    async def unload(self) -> None:
        """Free the models when all answers have ended; the next job has to be a load."""
        async with aclosing(self._messages(Worker.unload, Claim.ALL, Urgency.ANSWER, None)) as messages:
            async for _ in messages:
                pass

    async def answer(
        self,
        question: Question,
        urgency: Urgency = Urgency.ANSWER,
        wait: float | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[AnswerMessage]:
        """Yield the messages of an answer; raises LocalspecError, and BusyError if it did not begin in `wait` seconds.

        `on_end` is called in the loop when the engine has finished, even if messages are still unread here. Cancelling
        the task, or closing the iterator (use `contextlib.aclosing`), stops the answer within a round; the tokens that
        it read stay in the cache.
        """
        job = _answering(question, urgency)
        async with aclosing(self._messages(job, Claim.SLOT, urgency, wait, on_end)) as messages:
            async for message in messages:
                if isinstance(message, Reading | PromptScored | Said | Watched | Ended):
                    yield message

    async def look(self, job: Callable[[Worker], T]) -> T:
        """Return the result of a short job on the loaded models, run between two rounds of running answers.

        `job` runs on the engine thread; its errors are raised here.
        """
        found: list[T] = []
        wrong: list[Exception] = []

        def looking(worker: Worker) -> Iterator[Message]:
            try:
                found.append(job(worker))
            except Exception as error:  # raised for the caller of `look`
                wrong.append(error)
            except BaseException as error:
                # A panic of a Rust library is no Exception: raised in the loop it would end more than this request.
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
        """Error that ended the engine thread; None while it runs."""
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
    """Call a function in the loop from any thread; does nothing once the loop is closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(take, *what)
