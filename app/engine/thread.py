"""The engine's one thread: it owns every llama.cpp context, and takes jobs from a queue.

Two threads in one context would corrupt it, and an "exclusive" worker thread can't be stopped from outside; one owner
with a queue makes both impossible. Listeners are called on this thread and must only pass the message on.
"""

import logging
import queue
import threading
import traceback
from collections.abc import Callable, Iterator

from app.engine.messages import Failed, Message
from app.engine.worker import Worker
from models.abort import AbortFlag
from models.errors import LocalspecError

Job = Callable[[Worker], Iterator[Message]]
"""Work for the engine: uses the worker, yields what it has to tell."""
Listener = Callable[[Message], None]
_log = logging.getLogger("localspec.engine")


class Ticket:
    """A submitted job: what to do, whom to tell, and whether it was called off."""

    def __init__(self, job: Job, listener: Callable[[Message | None], None]) -> None:
        self.job = job
        self.listener = listener
        self.cancelled = False


class Engine:
    """Runs jobs one after the other; every method may be called from any thread."""

    def __init__(self, make_worker: Callable[[AbortFlag], Worker]) -> None:
        """Start the thread; the worker is made, used and closed on it."""
        self._abort = AbortFlag()
        self._jobs: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._current: Ticket | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, args=(make_worker,), name="engine", daemon=True)
        self._thread.start()

    def submit(self, job: Job, listener: Callable[[Message | None], None]) -> Ticket:
        """Queue a job; the listener receives its messages, then None when it is over."""
        ticket = Ticket(job, listener)
        with self._lock:
            if self._closing:
                raise RuntimeError("the engine is closed")
            self._jobs.put(ticket)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Call a job off, running or waiting; a running decode stops within milliseconds."""
        with self._lock:
            ticket.cancelled = True
            if self._current is ticket:
                self._abort.set()

    def stream(self, job: Job, on_submit: Callable[[Ticket], None] = lambda _: None) -> Iterator[Message]:
        """Submit a job and yield its messages, waiting for each; `on_submit` gets the ticket that can cancel it."""
        messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        on_submit(self.submit(job, messages.put))
        while (message := messages.get()) is not None:
            yield message

    def close(self, timeout: float = 10.0) -> None:
        """Stop what is running and what is waiting, free the models and end the thread."""
        with self._lock:
            self._closing = True
            self._abort.set()
        self._jobs.put(None)
        self._thread.join(timeout)

    def _run(self, make_worker: Callable[[AbortFlag], Worker]) -> None:
        worker = make_worker(self._abort)
        while (ticket := self._jobs.get()) is not None:
            self._start(ticket)
            try:
                for message in ticket.job(worker):
                    ticket.listener(message)
            except LocalspecError as error:
                ticket.listener(Failed(error))
            except Exception as error:  # the one place where the unexpected is caught, told and survived
                _log.error("%s", traceback.format_exc())
                ticket.listener(Failed(_unexpected(error)))
            with self._lock:
                self._current = None
            ticket.listener(None)
        worker.close()

    def _start(self, ticket: Ticket) -> None:
        """Make a ticket the current one; one that was called off while it waited starts with the flag up."""
        with self._lock:
            self._current = ticket
            self._abort.clear()
            if ticket.cancelled or self._closing:
                self._abort.set()


def _unexpected(error: Exception) -> LocalspecError:
    return LocalspecError(
        "localspec made a mistake.",
        cause=f"{type(error).__name__}: {error}",
        hint="The log file has the whole story (localspec --version names it); please report it.",
    )
