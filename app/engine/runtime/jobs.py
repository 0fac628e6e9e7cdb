"""Jobs of the engine's thread: urgency, the part of the engine that each claims, and their state."""

import time
from collections.abc import Callable, Iterator
from enum import Enum, IntEnum

from app.engine.conversation.messages import Message
from app.engine.decoding.shared_pass import Pass
from app.engine.runtime.worker import Worker

Steps = Iterator[Message | Pass]
"""Steps of a job: messages, and passes that it may share."""
Job = Callable[[Worker], Steps]
"""Job for the engine: uses the worker and yields messages."""
Listener = Callable[[Message | None], None]


class Urgency(IntEnum):
    """Urgency of a job; the lower number goes first."""

    COMPLETION = 0
    """Completion at a cursor during typing."""
    ANSWER = 1
    IDLE = 2
    """Background work, cancelled when another job needs its slot."""


class Claim(Enum):
    """Part of the engine that a job needs."""

    ALL = "all"
    """Whole engine: no other job has a slot meanwhile."""
    SLOT = "slot"
    """One slot of the worker."""
    NOTHING = "nothing"
    """Moment between two rounds of other jobs."""


class Ticket:
    """Submitted job with its listener and its state."""

    def __init__(self, job: Job, listener: Listener, claim: Claim, urgency: Urgency, deadline: float | None) -> None:
        self.job = job
        self.listener = listener
        self.claim = claim
        self.urgency = urgency
        self.deadline = deadline
        """Latest start, in seconds of the monotonic clock; None: any time."""
        self.cancelled = False
        self.turn = 0
        """Place in the order of turns."""
        self.messages: Steps | None = None
        """Iterator of its steps; None: it has not begun."""
        self.wanted: Pass | None = None
        """Pass that it waits for."""

    @property
    def overdue(self) -> bool:
        """Whether it has not begun by its deadline."""
        return self.messages is None and self.deadline is not None and time.monotonic() > self.deadline


class PauseWork:
    """The job that is done after an answer while no other one waits."""

    def __init__(self, job: Job | None) -> None:
        self.job = job
        """The job; None: nothing is done."""
        self._is_left = False

    def after(self, ticket: Ticket) -> None:
        """Take that a job has ended: after an answer there is something to do, and after a stop something is left."""
        self._is_left |= ticket.urgency is Urgency.ANSWER or (ticket.job is self.job and ticket.cancelled)

    def begin(self) -> Ticket | None:
        """Return its ticket, once; None where nothing is left to do."""
        is_left, self._is_left = self._is_left, False
        return Ticket(self.job, lambda _: None, Claim.ALL, Urgency.IDLE, None) if is_left and self.job else None
