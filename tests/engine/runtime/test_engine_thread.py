"""The engine's thread: one owner, jobs in order, and a stop that hits the job it was meant for."""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from app.engine.conversation.messages import Failed, Message
from app.engine.conversation.session import Reading
from app.engine.runtime.jobs import Ticket
from app.engine.runtime.thread import Engine
from app.engine.runtime.worker import Worker
from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError

SOON = 10.0
"""Seconds after which a test that waits has failed."""


class FakeWorker:
    """Holds the abort flag, and remembers the threads it was seen on."""

    def __init__(self, abort: AbortFlag) -> None:
        self.abort = abort
        self.threads = [threading.current_thread()]
        self.closed = 0

    def close(self) -> None:
        self.threads.append(threading.current_thread())
        self.closed += 1


class AsyncEngine:
    """An engine over a fake worker, and jobs whose pace the test decides."""

    def __init__(self) -> None:
        self.workers: list[FakeWorker] = []
        self.engine = Engine(self._make)
        self.aborted: dict[str, bool] = {}
        """Whether each job found the abort flag raised when it started."""

    def _make(self, abort: AbortFlag) -> Worker:
        self.workers.append(FakeWorker(abort))
        return cast(Worker, self.workers[-1])

    def count(self, name: str, upto: int = 3) -> Callable[[Worker], Iterator[Message]]:
        """Return a job that tells numbers."""

        def job(worker: Worker) -> Iterator[Message]:
            self._start(name, worker)
            yield from (Reading(number, upto) for number in range(upto))

        return job

    def wait_for_stop(self, name: str, started: threading.Event) -> Callable[[Worker], Iterator[Message]]:
        """Return a job that goes on until the abort flag is raised."""

        def job(worker: Worker) -> Iterator[Message]:
            self._start(name, worker)
            yield Reading(0, 1)
            started.set()
            pause = threading.Event()
            for _ in range(int(SOON * 1000)):
                if self.workers[0].abort.is_set:
                    raise Cancelled("Stopped.")
                pause.wait(0.001)
            raise AssertionError("never stopped")

        return job

    def wait_for(self, name: str, go: threading.Event) -> Callable[[Worker], Iterator[Message]]:
        """Return a job that takes as long as the test wants, and can't be stopped."""

        def job(worker: Worker) -> Iterator[Message]:
            self._start(name, worker)
            assert go.wait(SOON)
            yield Reading(1, 1)

        return job

    def _start(self, name: str, worker: Worker) -> None:
        fake = cast(FakeWorker, worker)
        fake.threads.append(threading.current_thread())
        self.aborted[name] = fake.abort.is_set


@pytest.fixture
def async_engine() -> Iterator[AsyncEngine]:
    async_engine = AsyncEngine()
    yield async_engine
    async_engine.engine.close()
    assert not [thread for thread in threading.enumerate() if thread is async_engine.engine._thread]


class Mailbox:
    """A listener that keeps its messages."""

    def __init__(self) -> None:
        self.queue: queue.Queue[Message | None] = queue.Queue()

    def all(self) -> list[Message]:
        """Wait for the end of the job, and return what it told."""
        messages: list[Message] = []
        while (message := self.queue.get(timeout=SOON)) is not None:
            messages.append(message)
        return messages


def submit(async_engine: AsyncEngine, job: Callable[[Worker], Iterator[Message]]) -> tuple[Ticket, Mailbox]:
    mailbox = Mailbox()
    return async_engine.engine.submit(job, mailbox.queue.put), mailbox


def error_of(messages: list[Message]) -> LocalspecError:
    assert isinstance(messages[-1], Failed)
    return messages[-1].error


def test_messages_come_in_order_and_then_none(async_engine: AsyncEngine) -> None:
    _, mailbox = submit(async_engine, async_engine.count("job", 100))
    assert mailbox.all() == [Reading(number, 100) for number in range(100)]
    assert mailbox.queue.empty()


def test_jobs_are_done_one_after_the_other_in_the_order_they_came(async_engine: AsyncEngine) -> None:
    told: queue.Queue[tuple[int, Message | None]] = queue.Queue()
    go = threading.Event()
    submit(async_engine, async_engine.wait_for("first", go))
    for number in range(5):
        async_engine.engine.submit(
            async_engine.count(f"job {number}"), lambda message, number=number: told.put((number, message))
        )
    go.set()
    seen = [told.get(timeout=SOON) for _ in range(5 * 4)]
    assert [number for number, _ in seen] == sorted(number for number, _ in seen)
    assert [message for number, message in seen if number == 4] == [*(Reading(i, 3) for i in range(3)), None]


def test_a_stream_yields_the_messages_and_shows_its_ticket_first(async_engine: AsyncEngine) -> None:
    tickets: list[Ticket] = []
    stream = async_engine.engine.stream(async_engine.count("job"), tickets.append)
    assert next(stream) == Reading(0, 3)
    assert len(tickets) == 1
    assert list(stream) == [Reading(1, 3), Reading(2, 3)]


def test_a_stream_can_be_stopped_by_its_ticket(async_engine: AsyncEngine) -> None:
    tickets: list[Ticket] = []
    messages = []
    for message in async_engine.engine.stream(async_engine.wait_for_stop("job", threading.Event()), tickets.append):
        messages.append(message)
        async_engine.engine.cancel(tickets[0])
    assert isinstance(error_of(messages), Cancelled)


def test_a_failure_is_told_and_the_next_job_works(async_engine: AsyncEngine) -> None:
    def fails(worker: Worker) -> Iterator[Message]:  # noqa: ARG001
        yield Reading(1, 2)
        raise LocalspecError("No such thing.", hint="Try another.")

    _, mailbox = submit(async_engine, fails)
    messages = mailbox.all()
    assert messages[0] == Reading(1, 2)
    assert error_of(messages).title == "No such thing."
    assert len(submit(async_engine, async_engine.count("next"))[1].all()) == 3


def test_a_mistake_is_told_logged_and_survived(async_engine: AsyncEngine, caplog: pytest.LogCaptureFixture) -> None:
    def stumbles(worker: Worker) -> Iterator[Message]:  # noqa: ARG001
        yield Reading(1, 2)
        raise ZeroDivisionError("over nothing")

    with caplog.at_level(logging.ERROR, logger="localspec.engine"):
        error = error_of(submit(async_engine, stumbles)[1].all())
    assert error.exit_code == 1
    assert "ZeroDivisionError: over nothing" in str(error)
    assert "report" in error.hint
    assert "in stumbles" in caplog.text
    assert "ZeroDivisionError" in caplog.records[0].message.splitlines()[-1]
    assert "over nothing\n" not in caplog.text, "a message may quote what was asked"
    assert len(submit(async_engine, async_engine.count("next"))[1].all()) == 3


def test_a_job_that_fails_before_its_first_message_is_told_too(async_engine: AsyncEngine) -> None:
    def refuses(worker: Worker) -> Iterator[Message]:  # noqa: ARG001
        raise LocalspecError("Not now.")

    assert error_of(submit(async_engine, refuses)[1].all()).title == "Not now."


def test_cancelling_the_running_job_stops_it_and_not_the_next(async_engine: AsyncEngine) -> None:
    started = threading.Event()
    ticket, mailbox = submit(async_engine, async_engine.wait_for_stop("running", started))
    _, next_mailbox = submit(async_engine, async_engine.count("next"))
    assert started.wait(SOON)
    async_engine.engine.cancel(ticket)
    assert isinstance(error_of(mailbox.all()), Cancelled)
    assert len(next_mailbox.all()) == 3
    assert async_engine.aborted == {"running": False, "next": False}


def test_cancelling_a_waiting_job_leaves_the_running_one_alone_and_reaches_it_when_it_starts(
    async_engine: AsyncEngine,
) -> None:
    go = threading.Event()
    _, running = submit(async_engine, async_engine.wait_for("running", go))
    ticket, waiting = submit(async_engine, async_engine.count("waiting"))
    _, last = submit(async_engine, async_engine.count("last"))
    async_engine.engine.cancel(ticket)
    assert not async_engine.workers[0].abort.is_set
    go.set()
    for mailbox in (running, waiting, last):
        mailbox.all()
    assert async_engine.aborted == {"running": False, "waiting": True, "last": False}


def test_cancelling_a_finished_job_affects_no_other(async_engine: AsyncEngine) -> None:
    ticket, mailbox = submit(async_engine, async_engine.count("finished"))
    mailbox.all()
    go = threading.Event()
    _, running = submit(async_engine, async_engine.wait_for("running", go))
    async_engine.engine.cancel(ticket)
    assert not async_engine.workers[0].abort.is_set
    go.set()
    assert running.all() == [Reading(1, 1)]
    assert async_engine.aborted["running"] is False


def test_cancelling_twice_is_as_good_as_once(async_engine: AsyncEngine) -> None:
    started = threading.Event()
    ticket, mailbox = submit(async_engine, async_engine.wait_for_stop("running", started))
    assert started.wait(SOON)
    async_engine.engine.cancel(ticket)
    async_engine.engine.cancel(ticket)
    assert isinstance(error_of(mailbox.all()), Cancelled)
    async_engine.engine.cancel(ticket)
    assert len(submit(async_engine, async_engine.count("next"))[1].all()) == 3
    assert async_engine.aborted["next"] is False


def test_the_worker_is_made_used_and_closed_on_one_thread_of_its_own() -> None:
    async_engine = AsyncEngine()
    submit(async_engine, async_engine.count("job"))[1].all()
    async_engine.engine.close()
    assert len(async_engine.workers) == 1
    assert async_engine.workers[0].closed == 1
    threads = set(async_engine.workers[0].threads)
    assert len(threads) == 1
    assert threads.isdisjoint({threading.current_thread()})
    assert not threads.pop().is_alive()


def test_closing_stops_what_is_running() -> None:
    async_engine = AsyncEngine()
    started = threading.Event()
    _, mailbox = submit(async_engine, async_engine.wait_for_stop("running", started))
    assert started.wait(SOON)
    async_engine.engine.close()
    assert isinstance(error_of(mailbox.all()), Cancelled)
    assert async_engine.workers[0].closed == 1


def test_closing_stops_what_is_waiting_too() -> None:
    async_engine = AsyncEngine()
    started = threading.Event()
    _, running = submit(async_engine, async_engine.wait_for_stop("running", started))
    _, waiting = submit(async_engine, async_engine.wait_for_stop("waiting", threading.Event()))
    assert started.wait(SOON)
    async_engine.engine.close()
    assert isinstance(error_of(running.all()), Cancelled)
    assert isinstance(error_of(waiting.all()), Cancelled)
    assert async_engine.aborted == {"running": False, "waiting": True}
    assert async_engine.workers[0].closed == 1


def test_closing_an_idle_engine_twice_is_fine() -> None:
    async_engine = AsyncEngine()
    async_engine.engine.close()
    async_engine.engine.close()
    assert async_engine.workers[0].closed == 1
