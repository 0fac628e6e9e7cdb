"""Streams are never silent for long: headers at once, comments while nothing is said, errors as events."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import APIError, OpenAI
from serving import serve_here

from app.engine.conversation.messages import Message
from app.engine.runtime.worker import Worker
from app.serve import settings
from app.serve.replies.stream import WAITING, EventStream
from models.toy import ToyModel

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
PATHS = (CHAT, MESSAGES, RESPONSES, "/v1/completions", "/completion", "/infill")
SHORT: dict[str, Any] = {"max_tokens": 4, "temperature": 0, "stream": True}
CHATTING = {**SHORT, "messages": [{"role": "user", "content": "the cat"}]}
INFILL = {**SHORT, "input_prefix": "a", "input_suffix": "b"}
BODIES = {CHAT: CHATTING, MESSAGES: CHATTING, RESPONSES: {**SHORT, "input": "the cat"}, "/infill": INFILL}
NOW = threading.Event()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a moment and a silence be short, and hold the engine back until NOW is set."""
    make = settings.Limits

    class Quick(make):  # type: ignore[valid-type, misc]
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, moment=0.05, beat=0.05)

    monkeypatch.setattr("app.serve.command.Limits", Quick)
    answer = Worker.answer

    def held(self: Worker, *given: Any) -> Iterator[Message]:
        assert NOW.wait(30)
        yield from answer(self, *given)

    monkeypatch.setattr(Worker, "answer", held)
    NOW.clear()
    yield
    NOW.set()


def comments(lines: Iterator[str], least: int) -> None:
    """Read a stream until so many comments came, and nothing else."""
    for _ in range(least):
        assert next(lines) == WAITING.decode().strip()
        assert next(lines) == ""


@contextmanager
def stream(url: str, path: str, **more: Any) -> Iterator[Iterator[str]]:
    with httpx2.stream(
        "POST", url + path, json={**BODIES.get(path, {**SHORT, "prompt": "the cat"}), **more}, timeout=30
    ) as reply:
        assert (reply.status_code, reply.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
        yield reply.iter_lines()


def test_headers_and_comments_come_before_the_engine_begins_on_every_path(tmp_path: Path) -> None:
    def ask(url: str) -> None:
        for path in PATHS:
            NOW.clear()
            with stream(url, path) as lines:
                comments(lines, 3)
                NOW.set()
                events = [line for line in lines if line and not line.startswith(":")]
            assert all(line.startswith(("data: ", "event: ")) for line in events)
            assert len(events) > 1

    serve_here(tmp_path, "toy-fim", asks=ask)


@pytest.fixture
def slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pass over much of a prompt take a while."""
    decode = ToyModel.decode

    def slowly(self: ToyModel, tokens: Any, rows: int, parents: Any = ()) -> Any:
        if rows == 0:
            time.sleep(0.15)
        return decode(self, tokens, rows, parents)

    monkeypatch.setattr(ToyModel, "decode", slowly)


@pytest.mark.usefixtures("slow_reader")
@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
def test_comments_have_the_progress_of_the_prompt(tmp_path: Path, path: str) -> None:
    def ask(url: str) -> list[str]:
        NOW.set()
        long: Any = "a" * 400 if path == RESPONSES else [{"role": "user", "content": "a" * 400}]
        with stream(url, path, **{"input" if path == RESPONSES else "messages": long}) as lines:
            return [line for line in lines if line.startswith(": reading")]

    told = serve_here(tmp_path, "toy", asks=ask)
    places = [list(map(int, re.findall(r"\d+", line))) for line in told]
    assert len({done for done, _ in places}) > 3
    assert places == sorted(places)
    assert all(done <= total == 400 for done, total in places)


@pytest.mark.usefixtures("slow_reader")
def test_a_client_that_leaves_while_its_prompt_is_read_stops_the_reading(tmp_path: Path) -> None:
    def ask(url: str) -> float:
        NOW.set()
        with stream(url, CHAT, messages=[{"role": "user", "content": "a" * 9000}]) as lines:
            assert next(line for line in lines if line.startswith(": reading"))
        begun = time.monotonic()
        reply = httpx2.post(url + CHAT, json={**CHATTING, "stream": False}, timeout=30)
        assert reply.status_code == 200
        return time.monotonic() - begun

    assert serve_here(tmp_path, "toy", "-c", "16384", "-np", "1", asks=ask) < 9000 / 64 * 0.15 / 3


def test_openais_client_leaves_comments_out(tmp_path: Path) -> None:
    def ask(url: str) -> str:
        with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
            chunks = client.chat.completions.create(
                model="any", messages=[{"role": "user", "content": "the cat"}], max_tokens=9, temperature=0, stream=True
            )
            threading.Timer(0.2, NOW.set).start()
            return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    assert len(serve_here(tmp_path, "toy", asks=ask)) == 9


def test_an_error_after_the_headers_is_raised_by_openais_client(tmp_path: Path) -> None:
    def ask(url: str) -> APIError:
        with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
            chunks = client.completions.create(model="any", prompt="a" * 600, stream=True)
            NOW.set()
            with pytest.raises(APIError) as told:
                list(chunks)
            return told.value

    error = serve_here(tmp_path, "toy", asks=ask)
    assert "600 tokens" in error.message or "601 tokens" in error.message
    assert error.code == "context_length_exceeded"


def test_a_place_in_the_queue_that_takes_too_long_ends_in_an_event(tmp_path: Path) -> None:
    def ask(url: str) -> Any:
        NOW.set()
        with stream(url, CHAT, max_tokens=30_000) as runs, stream(url, CHAT) as waits:
            assert next(runs)
            return json.loads([line for line in waits if line.startswith("data: ")][-1].removeprefix("data: "))

    assert (
        serve_here(tmp_path, "toy", "-c", "32768", "-np", "1", "--timeout", "0.3", asks=ask)["error"]["code"] == "busy"
    )


def test_a_mistake_after_the_headers_ends_in_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("app.serve.replies.answer_reader.finish_reason", wrong)

    def ask(url: str) -> Any:
        with stream(url, CHAT) as lines:
            NOW.set()
            return json.loads([line for line in lines if line.startswith("data: ")][-1].removeprefix("data: "))

    assert serve_here(tmp_path, "toy", asks=ask)["error"]["type"] == "server_error"


@pytest.mark.parametrize("most", [0, 3])
def test_a_client_that_leaves_while_it_waits_frees_its_place(tmp_path: Path, most: int) -> None:
    def ask(url: str) -> None:
        with stream(url, CHAT) as runs, stream(url, CHAT) as waits:
            comments(runs, 1)
            comments(waits, most)
            waiting = httpx2.get(f"{url}/metrics").text
            assert "localspec:requests_waiting 2.0" in waiting
        NOW.set()
        end = time.monotonic() + 20
        while "localspec:requests_waiting 0.0" not in httpx2.get(f"{url}/metrics").text:
            assert time.monotonic() < end
            time.sleep(0.02)

    serve_here(tmp_path, "toy", "-np", "1", "--queue", "1", asks=ask)


def test_what_is_refused_within_the_moment_keeps_its_status(tmp_path: Path) -> None:
    def ask(url: str) -> int:
        with stream(url, CHAT) as runs:
            comments(runs, 1)
            status = httpx2.post(url + CHAT, json=CHATTING, timeout=30).status_code
            NOW.set()
            return status

    assert serve_here(tmp_path, "toy", "-np", "1", "--queue", "0", asks=ask) == 503


def test_a_silence_between_two_events_is_filled_and_its_end_cancels_the_events() -> None:
    async def run() -> list[bytes]:
        sent: list[bytes] = []
        closed = asyncio.Event()

        async def events() -> Any:
            try:
                yield b"one"
                await asyncio.sleep(60)
            finally:
                closed.set()

        async def receive() -> Any:
            while sent.count(WAITING) < 3:
                await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message.get("body", b""))

        await EventStream(events(), asyncio.Event(), lambda _: None, (9, 0.02))({}, receive, send)
        assert closed.is_set()
        return sent

    assert asyncio.run(run())[1:5] == [b"one", WAITING, WAITING, WAITING]


def test_the_silence_of_a_server_is_a_few_seconds() -> None:
    limits = settings.Limits(1, 1, 1, 1)
    assert limits.moment <= 1
    assert limits.beat <= 5
