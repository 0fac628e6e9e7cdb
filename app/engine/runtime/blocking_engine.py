"""Blocking engine for line programs: one job at a time, and Ctrl-C stops the job, not the program."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from app.engine.control.explain import Explanation
from app.engine.conversation.messages import Ended, Explained, Failed, Message, Ready, Said, Walked
from app.engine.conversation.session import Reading
from app.engine.decoding.request import Question
from app.engine.runtime.jobs import Job, Ticket
from app.engine.runtime.kept_chat import KeptChat
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.thread import Engine
from app.engine.runtime.worker import Worker
from app.shell.interrupt import interrupts_to
from drafters.registry import DrafterSpec


class Notices(Protocol):
    """Output of a line program besides its answers."""

    def warn(self, text: str) -> None:
        """Show a note."""

    def progress(self, text: str) -> None:
        """Show the progress of a job."""

    def loading(self, name: str, share: float | None) -> None:
        """Show the loaded share of a file, 0 to 1; None: unknown."""


class LineEngine:
    """Engine that runs each job to its end; failures are raised, Ctrl-C becomes a cancellation."""

    def __init__(self, plan: LoadPlan, notices: Notices, *, chats: bool = True) -> None:
        """Take the load plan, the output for notes, and whether notes about chats are shown."""
        self._engine = Engine(lambda abort: Worker(plan, abort, time.perf_counter), Worker.read_in_pause)
        self._notices = notices
        self._chats = chats
        self._ticket: Ticket | None = None
        self._kept = KeptChat(self._engine)
        self.interrupts = 0
        """Whether Ctrl-C was pressed during the running or last job."""

    def load(self) -> Ready:
        """Load target and drafter; raises LocalspecError."""
        ready = self._ready(lambda worker: worker.load(self._show_loading))
        for note in ready.chat_notes if self._chats else ():
            self._notices.warn(note)
        return ready

    def use_drafter(self, spec: DrafterSpec) -> Ready:
        """Change the drafter; raises LocalspecError, and then the old drafter stays."""
        return self._ready(lambda worker: worker.use_drafter(spec, self._show_loading))

    def answer(self, question: Question) -> Iterator[Said | Ended]:
        """Yield the rounds of an answer and its end; raises LocalspecError."""
        for message in self._run(lambda worker: worker.answer(question)):
            if isinstance(message, Said | Ended):
                yield message

    def recall(self, conversation: Question, spelled: Sequence[Sequence[int]], key: str = "") -> None:
        """Restore the tokens of a resumed conversation's answers, and its cache by its key; raises LocalspecError."""
        for _ in self._run(lambda worker: worker.recall(conversation, spelled, key)):
            pass

    def keep(self, key: str) -> None:
        """Keep the cache of a conversation for a later run, while nothing else is wanted; "": it has none."""
        self._kept.keep(key)

    def leave(self, key: str) -> None:
        """Keep what is missing of a conversation's cache, if `keep` was called for it last, and wait for that."""
        self._kept.leave(key)

    def explain(self, settings: Question) -> Explanation | None:
        """Return the controller's figures under these settings; None without a drafter."""
        for message in self._run(lambda worker: worker.explain(settings)):
            if isinstance(message, Explained):
                return message.explanation
        raise AssertionError("the explain job ends with Explained or fails")

    def walk(self, back: int | None = None) -> Walked:
        """Return a round of the last answer step by step, counted back from 1; None: the most instructive one."""
        for message in self._run(lambda worker: worker.walk(back)):
            if isinstance(message, Walked):
                return message
        raise AssertionError("the walk job ends with Walked or fails")

    def close(self) -> None:
        """Free the models."""
        self._engine.close()

    def _ready(self, job: Job) -> Ready:
        for message in self._run(job):
            if isinstance(message, Ready):
                for note in message.notes:
                    self._notices.warn(note)
                return message
        raise AssertionError("a load ends with Ready or fails")

    def _run(self, job: Job) -> Iterator[Message]:
        self.interrupts = 0
        with self._interruptible():
            for message in self._engine.stream(job, self._started):
                if isinstance(message, Failed):
                    raise message.error
                if isinstance(message, Reading) and message.done < message.total - 1:
                    self._notices.progress(f"reading {message.done:,} of {message.total:,} tokens")
                yield message

    def _show_loading(self, name: str, share: float | None) -> None:
        # Called on the engine thread, while the main thread waits for it and writes nothing.
        self._notices.loading(name, share)

    def _started(self, ticket: Ticket) -> None:
        self._ticket = ticket

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        def on_interrupt(_: int, __: FrameType | None) -> None:
            self.interrupts += 1
            if self.interrupts > 1:
                raise KeyboardInterrupt
            if self._ticket is not None:
                self._engine.cancel(self._ticket)

        with interrupts_to(on_interrupt):
            yield
