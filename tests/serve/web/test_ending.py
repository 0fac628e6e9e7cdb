"""A whole server in this process: how it comes up, what it does not wait for, and how it ends."""

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from serving import Terminal, plan_of, serve_here

from app.serve.replies import stream
from app.serve.web import connection
from app.serve.web.server import serve
from models.errors import LocalspecError, ModelFileError
from models.toy import ToyModel

LONG: dict[str, Any] = {"prompt": "the cat", "n_predict": 30_000, "temperature": 0.9, "stream": True}


def stop(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


def refuses(url: str) -> bool:
    host, _, port = url.removeprefix("http://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (ConnectionRefusedError, ConnectionResetError):  # Reset: it was let go while this one knocked.
        return True
    return False


def events(url: str, number: int, **asked: Any) -> tuple[list[Any], bool]:
    """Ask, send a signal when the answer has begun, and return it with whether a new client was refused meanwhile."""
    with httpx2.stream("POST", f"{url}/completion", json={**LONG, **asked}, timeout=60) as lines:
        source = lines.iter_lines()
        got = [next(source)]
        stop(number)
        end = time.monotonic() + 20
        while not (refused := refuses(url)) and time.monotonic() < end:
            time.sleep(0.02)
        got += source
    return [json.loads(line.removeprefix("data: ")) for line in got if line.startswith("data: ")], refused


def until_it_runs(url: str) -> None:
    """Wait until a request is answered."""
    while "requests_running 1.0" not in httpx2.get(f"{url}/metrics").text:
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_answers_end_and_takes_no_new_ones(tmp_path: Path, number: int) -> None:
    told, refused = serve_here(tmp_path, "toy", "-c", "4096", asks=lambda url: events(url, number, n_predict=300))
    assert refused
    assert (told[-1]["stop"], told[-1]["tokens_predicted"]) == (True, 300)


def test_a_stream_that_takes_longer_than_the_grace_period_is_told_so(tmp_path: Path) -> None:
    told, _ = serve_here(tmp_path, "toy", "-c", "32768", "--grace", "0.2", asks=lambda url: events(url, signal.SIGTERM))
    assert told[-1]["error"]["code"] == "stopping"


def test_an_answer_that_takes_longer_than_the_grace_period_is_refused(tmp_path: Path) -> None:
    def ask(url: str) -> httpx2.Response:
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(httpx2.post, f"{url}/completion", json={**LONG, "stream": False}, timeout=60)
            until_it_runs(url)
            stop()
            return asking.result()

    response = serve_here(tmp_path, "toy", "-c", "32768", "--grace", "0.2", asks=ask)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "stopping")


def test_a_connection_that_says_nothing_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENCE", 0.2)

    def ask(url: str) -> list[bytes]:
        port = int(url.rpartition(":")[2])
        got = []
        for sent in (b"", b"POST /infill HTTP/1.1\r\nHost: local"):
            answer = b""
            # Reset: it was closed before it had said as much.
            with socket.create_connection(("127.0.0.1", port), timeout=20) as raw, suppress(ConnectionError):
                raw.sendall(sent)
                answer = raw.recv(100)
            got.append(answer)
        return got

    assert serve_here(tmp_path, "toy", asks=ask) == [b"", b""]


def test_a_connection_that_is_answered_is_not_closed_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SILENCE", 1.0)
    goes_on, decode = threading.Event(), ToyModel.decode

    def ask(url: str) -> Any:
        monkeypatch.setattr(ToyModel, "decode", lambda *given, **how: goes_on.wait(60) and decode(*given, **how))
        asked = {**LONG, "n_predict": 20, "stream": False}
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(httpx2.post, f"{url}/completion", json=asked, timeout=60)
            until_it_runs(url)
            # A later silent connection is closed; until then the waiting client receives no bytes.
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as silent:
                assert silent.recv(100) == b""
            goes_on.set()
            return asking.result().json()

    assert serve_here(tmp_path, "toy", asks=ask)["tokens_predicted"] == 20


def test_no_answer_waits_for_the_clients_acknowledgement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    made = connection.Connection.connection_made

    def making(self: connection.Connection, transport: asyncio.Transport) -> None:
        made(self, transport)
        seen.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(connection.Connection, "connection_made", making)
    assert serve_here(tmp_path, "toy", asks=lambda url: httpx2.get(f"{url}/health").status_code) == 200
    assert seen == [1]


def test_a_client_that_reads_all_but_the_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_SECONDS", 0.05)
    sent: list[Any] = []

    async def events() -> AsyncGenerator[bytes]:
        yield b"data: 1\n\n"

    async def send(message: Any) -> None:
        sent.append(message)
        if message.get("more_body") is False:
            await asyncio.Event().wait()

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def answer() -> None:
        reply = stream.EventStream(events(), asyncio.Event(), lambda _: None, (9, 9))
        await asyncio.wait_for(reply({}, receive, send), timeout=5)

    asyncio.run(answer())
    assert [message.get("body") for message in sent] == [None, b"data: 1\n\n", b""]


def test_the_oldest_silent_connection_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MOST", 3)

    def ask(url: str) -> tuple[int, bytes]:
        port = int(url.rpartition(":")[2])
        silent = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(3)]
        status = httpx2.get(f"{url}/health").status_code
        first = silent[0].recv(100)
        for one in silent:
            one.close()
        return status, first

    assert serve_here(tmp_path, "toy", asks=ask) == (200, b"")


def test_a_model_that_is_not_there_ends_the_server(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"none\.gguf"):
        asyncio.run(serve(plan_of(tmp_path, "nowhere/none.gguf", "--port", "0"), Terminal(quiet=True)))


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        plan = plan_of(tmp_path, "toy", "--port", str(taken.getsockname()[1]))
        with pytest.raises(LocalspecError, match="Choose another port with --port"):
            asyncio.run(serve(plan, Terminal(quiet=True)))


def test_a_host_that_is_not_this_machine_is_told(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "toy", "--host", "192.0.2.1", "--api-key", "k")
    with pytest.raises(LocalspecError, match=r"192\.0\.2\.1 can't be used"):
        asyncio.run(serve(plan, Terminal(quiet=True)))


def test_two_servers_run_one_after_the_other_in_one_place(tmp_path: Path) -> None:
    port = serve_here(tmp_path, "toy", asks=lambda url: url).rpartition(":")[2]
    again = serve_here(tmp_path, "toy", "--port", port, asks=lambda url: httpx2.get(f"{url}/health").json()["status"])
    assert again == "ok"
