"""Streams whose model is still being loaded: comments keep the client, then the answer or an error follows."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import OpenAI
from serving import serve_here

from app.serve import settings
from app.serve.replies.stream import WAITING
from app.serve.service import Service

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
SHORT: dict[str, Any] = {"model": "toy-fim", "max_tokens": 4, "temperature": 0, "stream": True}
TURNS: dict[str, Any] = {**SHORT, "messages": [{"role": "user", "content": "the cat"}]}
BODIES = {
    CHAT: TURNS,
    MESSAGES: TURNS,
    RESPONSES: {**SHORT, "input": "the cat"},
    "/v1/completions": {**SHORT, "prompt": "the cat"},
    "/completion": {**SHORT, "prompt": "the cat"},
    "/infill": {**SHORT, "input_prefix": "the", "input_suffix": "cat"},
}
NOW = threading.Event()


@pytest.fixture(autouse=True)
def slow_swaps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a moment and a silence be short, and hold each swap back until NOW is set."""
    make = settings.Limits

    class Quick(make):  # type: ignore[valid-type, misc]
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, moment=0.05, beat=0.05)

    monkeypatch.setattr("app.serve.command.Limits", Quick)
    swap = Service._swap

    async def held(self: Service, name: str) -> None:
        import asyncio

        await asyncio.to_thread(NOW.wait, 30)
        await swap(self, name)

    monkeypatch.setattr(Service, "_swap", held)
    NOW.clear()
    yield
    NOW.set()


def read(lines: Iterator[str]) -> tuple[int, list[str]]:
    """Return how many comments there are before the first event, and all further lines."""
    comments = 0
    for line in lines:
        if line == WAITING.decode().strip():
            comments += 1
            if comments == 3:
                NOW.set()
        elif line:
            return comments, [line, *(each for each in lines if each)]
    return comments, []


@pytest.mark.parametrize("path", BODIES)
def test_comments_come_while_the_model_is_loaded_and_then_the_answer(tmp_path: Path, path: str) -> None:
    def ask(url: str) -> tuple[int, str, int, list[str], list[str]]:
        with httpx2.stream("POST", url + path, json=BODIES[path], timeout=60) as response:
            kind, status = response.headers["content-type"], response.status_code
            comments, lines = read(response.iter_lines())
        with httpx2.stream("POST", url + path, json=BODIES[path], timeout=60) as response:
            assert response.headers["content-type"].startswith(kind.partition(";")[0])
            _, again = read(response.iter_lines())
        return status, kind, comments, lines, again

    status, kind, comments, lines, again = serve_here(
        tmp_path, "toy", "--models", "toy-fim", "--draft", "off", asks=ask
    )
    assert (status, kind.partition(";")[0]) == (200, "text/event-stream")
    assert comments >= 3
    assert [line.partition(":")[0] for line in lines if not line.startswith(":")] == [
        line.partition(":")[0] for line in again if not line.startswith(":")
    ], "the events are those of a stream that did not wait"


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
def test_a_load_that_fails_is_the_last_event(tmp_path: Path, path: str) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\x00" * 64)

    def ask(url: str) -> tuple[int, list[str]]:
        with httpx2.stream("POST", url + path, json={**BODIES[path], "model": "broken"}, timeout=60) as response:
            return read(response.iter_lines())

    comments, lines = serve_here(tmp_path, "toy", "--models", str(broken), asks=ask)
    assert comments >= 3
    content = json.loads(lines[-1].removeprefix("data: "))
    message = content["message"] if path == RESPONSES else content["error"]["message"]
    assert message
    assert lines[0] == "event: error" or path == CHAT


def test_a_whole_answer_waits_without_bytes_and_has_its_status(tmp_path: Path) -> None:
    def ask(url: str) -> tuple[int, str]:
        threading.Timer(0.3, NOW.set).start()
        reply = httpx2.post(url + CHAT, json={**TURNS, "stream": False}, timeout=60)
        return reply.status_code, reply.json()["model"]

    assert serve_here(tmp_path, "toy", "--models", "toy-fim", asks=ask) == (200, "toy-fim")


def test_a_client_that_leaves_during_the_wait_leaves_the_server_whole(tmp_path: Path) -> None:
    def ask(url: str) -> str:
        with httpx2.stream("POST", url + CHAT, json=TURNS, timeout=60) as response:
            next(response.iter_lines())
        NOW.set()
        client = OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
        asked = {"model": "toy", "messages": [{"role": "user", "content": "a"}], "max_tokens": 3}
        return client.chat.completions.create(**asked).model  # type: ignore[call-overload, no-any-return]

    assert serve_here(tmp_path, "toy", "--models", "toy-fim", asks=ask) == "toy"


def test_a_refused_field_has_its_status_where_nothing_waits(tmp_path: Path) -> None:
    def ask(url: str) -> int:
        return httpx2.post(url + CHAT, json={**TURNS, "model": "toy", "temperature": "hot"}, timeout=60).status_code

    assert serve_here(tmp_path, "toy", "--models", "toy-fim", asks=ask) == 400
