"""Errors of every kind on the engine's thread: each ends its job, and a thread that dies fails what waits for it."""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import cast

import pytest
from serving import served

from app.engine.conversation.messages import Failed, Message
from app.engine.conversation.session import Reading
from app.engine.runtime.thread import Engine
from app.engine.runtime.worker import Worker
from models.abort import AbortFlag
from models.errors import LocalspecError

SOON = 10.0


class Panic(BaseException):
    """As PyO3 derives the panics of Rust: no Exception."""


class Idle:
    slots = 1

    def close(self) -> None:
        """Free nothing."""


def raises(error: BaseException) -> Callable[[Worker], Iterator[Message]]:
    def job(_: Worker) -> Iterator[Message]:
        yield Reading(0, 1)
        raise error

    return job


def counts(_: Worker) -> Iterator[Message]:
    yield Reading(1, 1)


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(lambda _: cast(Worker, Idle()))
    yield engine
    engine.close()


def told(engine: Engine, job: Callable[[Worker], Iterator[Message]]) -> list[Message]:
    heard: queue.Queue[Message | None] = queue.Queue()
    engine.submit(job, heard.put)
    return list(iter(lambda: heard.get(timeout=SOON), None))


@pytest.mark.parametrize("error", [Panic("ParserTooComplex"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_is_no_exception_ends_its_job_and_not_the_thread(engine: Engine, error: BaseException) -> None:
    *_, last = told(engine, raises(error))
    assert isinstance(last, Failed)
    assert type(error).__name__ in last.error.cause
    assert told(engine, counts) == [Reading(1, 1)]
    assert engine.failure is None


def test_a_listener_that_fails_costs_its_own_job(engine: Engine) -> None:
    def fails(_: Message | None) -> None:
        raise RuntimeError("Event loop is closed")

    engine.submit(raises(ValueError()), fails)
    engine.submit(counts, fails)
    assert told(engine, counts) == [Reading(1, 1)]


def dying() -> tuple[Engine, threading.Event]:
    """Return an engine whose thread dies when the event is set."""
    go = threading.Event()

    def make_worker(_: AbortFlag) -> Worker:
        assert go.wait(SOON)
        raise Panic("no worker")

    return Engine(make_worker), go


def test_a_thread_that_dies_fails_what_waits_and_what_comes_later() -> None:
    engine, go = dying()
    heard: queue.Queue[Message | None] = queue.Queue()
    for _ in range(2):
        engine.submit(counts, heard.put)
    assert engine.failure is None
    go.set()
    for _ in range(2):
        first = heard.get(timeout=SOON)
        assert isinstance(first, Failed)
        assert "Panic" in first.error.cause
        assert heard.get(timeout=SOON) is None
    engine._thread.join(SOON)
    assert isinstance(engine.failure, LocalspecError)
    assert [type(message) for message in told(engine, counts)] == [Failed]
    engine.close()


def test_a_dead_engine_is_a_dead_health_and_every_request_ends(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("served")
    with served(folder, "toy") as server:
        assert server.client.get("/health").status_code == 200
        engine = server.service._async_engine._engine

        def broken(_: object) -> None:
            raise Panic("beneath the jobs")

        engine._next = broken  # type: ignore[method-assign, assignment]
        heard: queue.Queue[Message | None] = queue.Queue()
        engine.submit(counts, heard.put)
        assert list(iter(lambda: heard.get(timeout=SOON), None))
        engine._thread.join(SOON)
        for path in ("/health", "/v1/models"):
            answer = server.client.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_ended")
        assert server.refused("/tokenize", content="a")[0] == 503
        assert server.refused("/v1/completions", prompt="a", max_tokens=1)[0] == 503
