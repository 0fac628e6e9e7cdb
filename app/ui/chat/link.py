"""The engine's thread for a screen: calls return at once, messages are posted, and a running job can be stopped.

Listeners run on the engine's thread and only post messages, so drawing never blocks decoding.
"""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from app.engine.conversation import messages as engine
from app.engine.decoding.request import Question
from app.engine.decoding.round import Clock
from app.engine.runtime.jobs import Steps, Ticket
from app.engine.runtime.kept_chat import KeptChat
from app.engine.runtime.load import LoadPlan, Progress
from app.engine.runtime.thread import Engine
from app.engine.runtime.worker import Worker
from app.ui.chat.messages import Heard, LoadProgress, Mail
from drafters.registry import DrafterSpec

Post = Callable[[Mail], object]


class Link(Protocol):
    """The engine's interface for a screen; each call returns its job's number, which its messages carry."""

    def load(self, plan: LoadPlan | None = None) -> int:
        """Load what a plan names, at first the one given at the start; what is loaded stays if that fails."""

    def use_drafter(self, spec: DrafterSpec) -> int:
        """Change the drafter; the old one stays if that fails."""

    def answer(self, question: Question) -> int:
        """Answer a question."""

    def recall(self, conversation: Question, spelled: Sequence[Sequence[int]], key: str = "") -> int:
        """Remember in which tokens the answers of a conversation were given; take its cache from disk by its key."""

    def keep(self, key: str) -> None:
        """Keep the cache of a saved conversation for a later run, while nothing else is wanted; "": it is not saved."""

    def leave(self, key: str) -> None:
        """Keep what is missing of a conversation's cache, if `keep` was called for it last, and wait for that."""

    def explain(self, settings: Question) -> int:
        """Request the costs and gains of drafting, and the draft length under the settings of the next answer."""

    def walk(self, back: int | None) -> int:
        """Request the steps by which a round of the last answer was verified."""

    def stop(self) -> None:
        """Cancel all waiting and running jobs."""

    def close(self) -> None:
        """Free the models."""


Work = Callable[[Worker, Progress], Steps]
"""A job that may tell what is being read."""


class EngineLink:
    """The engine's thread, seen from a screen."""

    def __init__(self, plan: LoadPlan, post: Post, clock: Clock = time.perf_counter) -> None:
        """Start the engine's thread. `post` takes a message from any thread; `clock` returns seconds."""
        self._engine = Engine(lambda abort: Worker(plan, abort, clock), Worker.read_in_pause)
        self._post = post
        self._jobs = 0
        self._lock = threading.Lock()
        self._open: dict[int, Ticket] = {}
        self._kept = KeptChat(self._engine)

    def load(self, plan: LoadPlan | None = None) -> int:
        """Load what a plan names, at first the one given at the start."""
        return self._submit(lambda worker, progress: worker.load(progress, plan))

    def use_drafter(self, spec: DrafterSpec) -> int:
        """Change the drafter."""
        return self._submit(lambda worker, progress: worker.use_drafter(spec, progress))

    def answer(self, question: Question) -> int:
        """Answer a question."""
        return self._submit(lambda worker, _: worker.answer(question))

    def recall(self, conversation: Question, spelled: Sequence[Sequence[int]], key: str = "") -> int:
        """Remember in which tokens the answers of a conversation were given; take its cache from disk by its key."""
        return self._submit(lambda worker, _: worker.recall(conversation, spelled, key))

    def keep(self, key: str) -> None:
        """Keep the cache of a saved conversation for a later run, while nothing else is wanted; "": it is not saved."""
        self._kept.keep(key)

    def leave(self, key: str) -> None:
        """Keep what is missing of a conversation's cache, if `keep` was called for it last, and wait for that."""
        self._kept.leave(key)

    def explain(self, settings: Question) -> int:
        """Request the costs and gains of drafting."""
        return self._submit(lambda worker, _: worker.explain(settings))

    def walk(self, back: int | None) -> int:
        """Request the steps by which a round of the last answer was verified."""
        return self._submit(lambda worker, _: worker.walk(back))

    def stop(self) -> None:
        """Cancel all waiting and running jobs."""
        with self._lock:
            tickets = list(self._open.values())
        for ticket in tickets:
            self._engine.cancel(ticket)

    def close(self) -> None:
        """Free the models."""
        self._engine.close()

    def _submit(self, work: Work) -> int:
        self._jobs += 1
        number = self._jobs
        # Held until the ticket is in its place: a quick job may be over before it is.
        with self._lock:
            job = partial(self._work, number, work)
            self._open[number] = self._engine.submit(job, partial(self._receive, number))
        return number

    def _work(self, number: int, work: Work, worker: Worker) -> Steps:
        return work(worker, partial(self._progressed, number))

    def _receive(self, number: int, message: engine.Message | None) -> None:
        if message is None:
            with self._lock:
                del self._open[number]
        self._post(Heard(number, message))

    def _progressed(self, number: int, name: str, fraction: float | None) -> None:
        self._post(LoadProgress(number, name, fraction))
