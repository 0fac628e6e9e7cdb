"""Engine thread: owns every llama.cpp context, and takes jobs from a queue.

Two threads in one context would corrupt it, so one thread owns it and all others submit jobs. Listeners are called on
this thread and must only pass the message on.

Jobs that share the engine take turns, message by message: an answer, round by round. The most urgent job goes first. A
pass that can be shared waits one turn of each other job for their passes, and is decoded with them.
"""

import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from queue import SimpleQueue

from app.engine.conversation.messages import Failed, Message
from app.engine.decoding.shared_pass import Pass, gathered, together
from app.engine.runtime.jobs import Claim, Job, Listener, PauseWork, Ticket, Urgency
from app.engine.runtime.unexpected import is_heard, log_unexpected, unexpected
from app.engine.runtime.worker import Worker
from models.abort import AbortFlag
from models.errors import BusyError, Cancelled, LocalspecError
from models.system.deep_stack import start_deep


class Engine:
    """Engine with one thread that runs jobs; every method may be called from any thread."""

    def __init__(self, make_worker: Callable[[AbortFlag], Worker], in_pauses: Job | None = None) -> None:
        """Start the thread, which makes, uses and closes the worker.

        `in_pauses` is done after an answer, while no other job waits, and ends for the next one; None: nothing is.
        """
        self._abort = AbortFlag()
        self._changed = threading.Condition()
        self._turns = count()
        self._waiting: list[Ticket] = []
        self._active: list[Ticket] = []
        self._current: Ticket | None = None
        self._pauses = PauseWork(in_pauses)
        self._closing = False
        self._failure: LocalspecError | None = None
        self._thread = threading.Thread(target=self._run, args=(make_worker,), name="engine", daemon=True)
        start_deep(self._thread)

    @property
    def failure(self) -> LocalspecError | None:
        """Error that ended the thread unexpectedly, with which every further job fails; None while it runs."""
        return self._failure

    def submit(
        self,
        job: Job,
        listener: Listener,
        *,
        claim: Claim = Claim.ALL,
        urgency: Urgency = Urgency.ANSWER,
        wait: float | None = None,
    ) -> Ticket:
        """Queue a job; the listener receives its messages, then None when it is over.

        A job that has not begun after `wait` seconds fails with BusyError; all jobs fail when the thread has died.
        """
        ticket = Ticket(job, listener, claim, urgency, None if wait is None else time.monotonic() + wait)
        with self._changed:
            if self._closing:
                raise RuntimeError("the engine is closed")
            if self._failure is not None:
                self._refuse(ticket, self._failure)
                return ticket
            ticket.turn = next(self._turns)
            self._waiting.append(ticket)
            if urgency < Urgency.IDLE:
                self._call_off_idle(all_of_it=claim is not Claim.NOTHING)
            self._changed.notify()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Cancel a running or waiting job; a running decode stops within milliseconds."""
        with self._changed:
            ticket.cancelled = True
            if self._current is ticket:
                self._abort.set()
            self._changed.notify()

    def stream(self, job: Job, on_submit: Callable[[Ticket], None] = lambda _: None) -> Iterator[Message]:
        """Submit a job and yield its messages, waiting for each; `on_submit` receives the ticket, to cancel it by."""
        messages: SimpleQueue[Message | None] = SimpleQueue()
        on_submit(self.submit(job, messages.put))
        while (message := messages.get()) is not None:
            yield message

    def close(self, timeout: float = 10.0) -> None:
        """Stop running and waiting jobs, free the models and end the thread."""
        with self._changed:
            self._closing = True
            for ticket in (*self._active, *self._waiting):
                ticket.cancelled = True
            self._abort.set()
            self._changed.notify()
        self._thread.join(timeout)

    def _run(self, make_worker: Callable[[AbortFlag], Worker]) -> None:
        try:
            self._work(make_worker)
        except BaseException as error:
            # Without this error every request would wait for ever.
            self._die(error)

    def _die(self, error: BaseException) -> None:
        """Fail running and waiting jobs; later jobs fail when they are submitted."""
        log_unexpected(error)
        with self._changed:
            self._failure = unexpected(error)
            tickets = [*self._active, *self._waiting]
            self._active, self._waiting, self._current = [], [], None
        for ticket in tickets:
            self._refuse(ticket, self._failure)

    def _refuse(self, ticket: Ticket, error: LocalspecError) -> None:
        self._tell(ticket, Failed(error))
        self._tell(ticket, None)

    def _work(self, make_worker: Callable[[AbortFlag], Worker]) -> None:
        worker = make_worker(self._abort)
        while (ticket := self._next(worker)) is not None:
            if ticket.messages is None and ticket.claim is Claim.SLOT and (late := _too_late(ticket)):
                # The job has touched nothing yet, so the content of its slot stays valid.
                self._end(ticket, late)
            elif ticket.wanted is not None and not ticket.cancelled:
                self._share(ticket, worker)
            else:
                self._step(ticket, worker)
        worker.close()

    def _next(self, worker: Worker) -> Ticket | None:
        """Wait for a job that can go on or begin, and make it the current one; None: the engine is closing."""
        with self._changed:
            while True:
                if self._closing and not self._waiting and not self._active:
                    return None
                ready = [*self._active, *(ticket for ticket in self._waiting if self._may_begin(ticket, worker))]
                if ready:
                    return self._take(min(ready, key=self._rank))
                if (ticket := self._pauses.begin()) is not None:
                    return self._take(ticket)
                self._changed.wait(_seconds_left(self._waiting))

    def _take(self, ticket: Ticket) -> Ticket:
        """Make a ticket the current one; a cancelled one goes on with the abort flag raised."""
        if ticket in self._waiting:
            self._waiting.remove(ticket)
        if ticket not in self._active:
            self._active.append(ticket)
        # A job whose pass was shared has used no turn of its own yet.
        return ticket if ticket.wanted is not None and not ticket.cancelled else self._turn_of(ticket)

    def _turn_of(self, ticket: Ticket) -> Ticket:
        ticket.turn = next(self._turns)
        self._current = ticket
        self._abort.clear()
        if ticket.cancelled:
            self._abort.set()
        return ticket

    def _rank(self, ticket: Ticket) -> tuple[bool, int, int]:
        """Return the sort key of a ticket: cancelled jobs first, then by urgency, then the longest waiting.

        A job that waits to share a pass lets each other job have a turn first, so that their passes can join.
        """
        patience = len(self._active) if ticket.wanted is not None else 0
        return not (ticket.cancelled or ticket.overdue), ticket.urgency, ticket.turn + patience

    def _may_begin(self, ticket: Ticket, worker: Worker) -> bool:
        if ticket.cancelled or ticket.overdue:
            # A cancelled job begins only to end, but might change a slot that running answers need.
            return ticket.claim is not Claim.ALL or not self._active
        before = [other for other in self._waiting if other.turn < ticket.turn and other.claim is Claim.ALL]
        if ticket.claim is Claim.NOTHING or before:
            return not before
        claims = [other.claim for other in self._active]
        if ticket.claim is Claim.ALL:
            return not claims
        return Claim.ALL not in claims and claims.count(Claim.SLOT) < worker.slots

    def _call_off_idle(self, *, all_of_it: bool) -> None:
        """Cancel background work, or only what is done in pauses, which goes on in the next one."""
        for ticket in (*self._active, *self._waiting):
            if ticket.urgency is Urgency.IDLE and (all_of_it or ticket.job is self._pauses.job):
                ticket.cancelled = True
                if self._current is ticket:
                    self._abort.set()

    def _share(self, first: Ticket, worker: Worker) -> None:
        """Decode a pass together with waiting ones, and let each job go on."""
        alike = [one for one in self._active if one.urgency is first.urgency and not one.cancelled]
        waiting = {one.wanted: one for one in sorted(alike, key=self._rank) if one.wanted is not None}
        if not waiting:
            # Cancelled since it was chosen: it ends at its next turn.
            return
        passes = gathered(waiting)
        if len(passes) > 1:
            self._begin_shared()
            try:
                together(passes, worker.clock)
            except LocalspecError:
                pass  # passes that can't be shared are decoded alone, and fail alone
            except BaseException as error:
                # Every job fails as if its own pass had failed: how much of it was decoded is unknown.
                for one in passes:
                    one.fail(error if isinstance(error, Exception) else unexpected(error))
        for ticket in [waiting[one] for one in passes]:
            with self._changed:
                self._turn_of(ticket)
            self._step(ticket, worker)

    def _begin_shared(self) -> None:
        """Keep the end of one job from stopping a shared pass; only the end of the engine stops it."""
        with self._changed:
            self._current = None
            if not self._closing:
                self._abort.clear()

    def _step(self, ticket: Ticket, worker: Worker) -> None:
        """Run a job to its next message or pass."""
        ticket.wanted = None
        try:
            if ticket.messages is None:
                ticket.messages = iter(ticket.job(worker))
            message = next(ticket.messages, None)
        except LocalspecError as error:
            self._end(ticket, error)
        except BaseException as error:
            # A panic of a Rust library is no Exception; it must end its job and not the thread.
            log_unexpected(error)
            self._end(ticket, unexpected(error))
        else:
            if message is None:
                self._end(ticket)
            elif isinstance(message, Pass):
                ticket.wanted = message
            else:
                self._tell(ticket, message)

    def _end(self, ticket: Ticket, error: LocalspecError | None = None) -> None:
        if error is not None:
            self._tell(ticket, Failed(error))
        with self._changed:
            self._active.remove(ticket)
            self._current = None
            self._pauses.after(ticket)
        self._tell(ticket, None)

    def _tell(self, ticket: Ticket, message: Message | None) -> None:
        """Pass a message to the listener; a failing listener ends its own job and no other."""
        # The listener, or another thread meanwhile, may cancel the job: its flag is only ever raised.
        if not is_heard(ticket.listener, message):
            ticket.cancelled = True


def _too_late(ticket: Ticket) -> LocalspecError | None:
    if ticket.cancelled:
        return Cancelled("Stopped.")
    if ticket.overdue:
        return BusyError("The model is busy with other requests.", hint="Try again a little later.")
    return None


def _seconds_left(tickets: list[Ticket]) -> float | None:
    deadlines = [ticket.deadline for ticket in tickets if ticket.deadline is not None]
    return max(0.0, min(deadlines) - time.monotonic()) + 0.001 if deadlines else None
