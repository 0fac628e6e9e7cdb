"""What the engine does in the pause after an answer: it waits for other jobs, ends for the next, and goes on later."""

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from app.engine.conversation.messages import Message
from app.engine.conversation.session import Reading
from app.engine.runtime import worker as worker_module
from app.engine.runtime.async_engine import AsyncEngine
from app.engine.runtime.blocking_engine import LineEngine, Notices
from app.engine.runtime.jobs import Claim, Urgency
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.thread import Engine
from app.engine.runtime.worker import Worker
from app.ui.chat.link import EngineLink
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import Cancelled
from models.llama.load import LlamaOptions

SOON = 10.0
"""Seconds after which a test that waits has failed."""


class Pauses:
    """An engine whose work in pauses goes on until it is stopped, or until the test lets it end."""

    def __init__(self) -> None:
        self.begun: queue.Queue[str] = queue.Queue()
        self.stopped: queue.Queue[str] = queue.Queue()
        self.may_end = threading.Event()
        self.slots = 1
        self._abort = AbortFlag()
        self.engine = Engine(self._make, self._in_pause)

    def _make(self, abort: AbortFlag) -> Worker:
        self._abort = abort
        return cast("Worker", self)

    def _in_pause(self, worker: Worker) -> Iterator[Message]:
        assert cast("Pauses", worker) is self
        self.begun.put("pause")
        for _ in range(int(SOON * 1000)):
            if self._abort.is_set:
                self.stopped.put("pause")
                raise Cancelled("Stopped.")
            if self.may_end.wait(0.001):
                break
        yield from ()

    def close(self) -> None:
        """Do nothing, as there are no models."""

    def job(self, name: str, go: threading.Event | None = None) -> list[Message]:
        """Do a job that waits for an event, and return its messages."""

        def steps(_: Worker) -> Iterator[Message]:
            assert go is None or go.wait(SOON)
            self.begun.put(name)
            yield Reading(1, 1)

        return list(self.engine.stream(steps))

    def submit(self, name: str, urgency: Urgency, claim: Claim = Claim.ALL) -> queue.Queue[Message | None]:
        """Submit a job, and return the queue of its messages."""
        told: queue.Queue[Message | None] = queue.Queue()

        def steps(_: Worker) -> Iterator[Message]:
            self.begun.put(name)
            yield Reading(1, 1)

        self.engine.submit(steps, told.put, urgency=urgency, claim=claim)
        return told


@pytest.fixture
def pauses() -> Iterator[Pauses]:
    made = Pauses()
    yield made
    made.engine.close()


def test_a_pause_begins_after_an_answer_whose_end_was_told_before(pauses: Pauses) -> None:
    assert pauses.job("answer") == [Reading(1, 1)]
    assert pauses.begun.get(timeout=SOON) == "answer"
    assert pauses.begun.get(timeout=SOON) == "pause"


def test_a_waiting_answer_comes_before_the_pause(pauses: Pauses) -> None:
    go = threading.Event()
    first = threading.Thread(target=pauses.job, args=("first", go))
    first.start()
    told = pauses.submit("second", Urgency.ANSWER)
    go.set()
    assert [told.get(timeout=SOON) for _ in range(2)] == [Reading(1, 1), None]
    first.join(SOON)
    assert [pauses.begun.get(timeout=SOON) for _ in range(3)] == ["first", "second", "pause"]


@pytest.mark.parametrize("claim", list(Claim))
def test_another_job_stops_what_is_done_in_the_pause_and_it_goes_on_afterwards(pauses: Pauses, claim: Claim) -> None:
    pauses.job("answer")
    assert [pauses.begun.get(timeout=SOON) for _ in range(2)] == ["answer", "pause"]
    told = pauses.submit("completion", Urgency.COMPLETION, claim)
    assert [told.get(timeout=SOON) for _ in range(2)] == [Reading(1, 1), None]
    assert pauses.stopped.get(timeout=SOON) == "pause"
    assert [pauses.begun.get(timeout=SOON) for _ in range(2)] == ["completion", "pause"]


def test_what_has_ended_is_not_done_again_before_the_next_answer(pauses: Pauses) -> None:
    pauses.may_end.set()
    pauses.job("answer")
    assert [pauses.begun.get(timeout=SOON) for _ in range(2)] == ["answer", "pause"]
    told = pauses.submit("completion", Urgency.COMPLETION)
    assert [told.get(timeout=SOON) for _ in range(2)] == [Reading(1, 1), None]
    idle = pauses.submit("idle", Urgency.IDLE)
    assert [idle.get(timeout=SOON) for _ in range(2)] == [Reading(1, 1), None]
    pauses.job("next")
    assert [pauses.begun.get(timeout=SOON) for _ in range(4)] == ["completion", "idle", "next", "pause"]


def test_every_front_lets_the_draft_models_read_in_pauses() -> None:
    plan = LoadPlan("toy", parse_drafter("off"), LlamaOptions(), Path("memory.json"))
    notices = cast("Notices", None)
    for front in (LineEngine(plan, notices), AsyncEngine(plan), EngineLink(plan, lambda _: None)):
        try:
            assert front._engine._pauses.job is Worker.read_in_pause
        finally:
            front._engine.close()


@pytest.mark.parametrize(("battery", "read"), [(True, 0), (False, 1), (None, 1)])
def test_on_a_battery_nothing_is_read(monkeypatch: pytest.MonkeyPatch, battery: bool | None, read: int) -> None:
    monkeypatch.setattr(worker_module, "on_battery", lambda: battery)
    monkeypatch.setattr(Worker, "_slot", property(lambda _: asked))
    asked = Mock()
    worker = Worker(LoadPlan("toy", parse_drafter("off"), LlamaOptions(), Path("memory.json")), AbortFlag(), float)
    worker._slots = [asked]
    assert list(worker.read_in_pause()) == []
    assert asked.read_in_pause.call_count == read
    worker._slots = []
    assert list(worker.read_in_pause()) == []
    assert asked.read_in_pause.call_count == read


def test_closing_ends_the_pause() -> None:
    pauses = Pauses()
    pauses.job("answer")
    assert [pauses.begun.get(timeout=SOON) for _ in range(2)] == ["answer", "pause"]
    pauses.engine.close()
    assert pauses.stopped.get(timeout=SOON) == "pause"
    assert pauses.engine.failure is None
