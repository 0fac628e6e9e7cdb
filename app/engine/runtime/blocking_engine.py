"""The engine as a line program uses it: one job at a time, and Ctrl-C stops the job, not the program."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from app.engine.control.explain import Explanation
from app.engine.conversation.messages import Ended, Explained, Failed, Message, Ready, Said, Walked
from app.engine.conversation.session import Reading
from app.engine.decoding.request import Question
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.thread import Engine, Job, Ticket
from app.engine.runtime.worker import Worker
from app.shell.interrupt import interrupts_to
from drafters.registry import DrafterSpec


class Notices(Protocol):
    """Shows what a line program says beside its answers."""

    def warn(self, text: str) -> None:
        """Show a note."""

    def progress(self, text: str) -> None:
        """Show how far a job is."""

    def loading(self, name: str, share: float | None) -> None:
        """Show how much of a file is loaded, 0 to 1; None: unknown."""


class LineEngine:
    """Runs jobs to their end; failures are raised, interrupts become cancellations."""

    def __init__(self, plan: LoadPlan, notices: Notices, *, chats: bool = True) -> None:
        """Take what to load, where notes are shown, and whether the model is wanted for conversations."""
        self._engine = Engine(lambda abort: Worker(plan, abort, time.perf_counter))
        self._notices = notices
        self._chats = chats
        self._ticket: Ticket | None = None
        self.interrupts = 0
        """Ctrl-C pressed during the job that runs or was last."""

    def load(self) -> Ready:
        """Load target and drafter; raises LocalspecError."""
        ready = self._ready(lambda worker: worker.load(self._show_loading))
        for note in ready.chat_notes if self._chats else ():
            self._notices.warn(note)
        return ready

    def use_drafter(self, spec: DrafterSpec) -> Ready:
        """Change the drafter; raises LocalspecError, and then the old one stays."""
        return self._ready(lambda worker: worker.use_drafter(spec, self._show_loading))

    def answer(self, question: Question) -> Iterator[Said | Ended]:
        """Yield the rounds of an answer and its end; raises LocalspecError."""
        for message in self._run(lambda worker: worker.answer(question)):
            if isinstance(message, Said | Ended):
                yield message

    def recall(self, conversation: Question, spelled: Sequence[Sequence[int]]) -> None:
        """Let the prompts of a conversation that goes on be spelled as they were; raises LocalspecError."""
        for _ in self._run(lambda worker: worker.recall(conversation, spelled)):
            pass

    def explain(self, settings: Question) -> Explanation | None:
        """Return what drafting costs here, and what follows under these settings; None when nobody guesses."""
        for message in self._run(lambda worker: worker.explain(settings)):
            if isinstance(message, Explained):
                return message.explanation
        raise AssertionError("a question after the controller ends with its explanation")

    def walk(self, back: int | None = None) -> Walked:
        """Return how a round of the last answer was judged, the last that drafted being 1; None: what shows most."""
        for message in self._run(lambda worker: worker.walk(back)):
            if isinstance(message, Walked):
                return message
        raise AssertionError("a question after a round ends with its walk, or why there is none")

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
        # Called on the engine's thread, while this one waits for it and writes nothing.
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
