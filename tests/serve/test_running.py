"""The server as a process: OpenAI's own client, clients that leave, signals, and connections that say nothing."""

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AuthenticationError, BadRequestError, OpenAI
from serving import Running, running

KEY = "sesam"
HEADERS = {"Authorization": f"Bearer {KEY}"}
HELLO: list[Any] = [{"role": "user", "content": "the cat sat on the mat. the cat"}]
LONG = {"prompt": "the cat", "max_tokens": 30_000, "temperature": 0.9, "stop": ["<never>"]}
"""What takes minutes to answer."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("home"), "toy-fim", "-c", "32768", "--api-key", KEY) as one:
        yield one
        assert one.end(signal.SIGTERM) == 0


@pytest.fixture
def client(server: Running) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as one:
        yield one


def figure(server: Running, name: str) -> float:
    lines = httpx2.get(f"{server.url}/metrics", headers=HEADERS).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((name + "{", name + " ")))


def until(is_so: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for something that has to happen soon."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_address_model_and_drafter_are_told(server: Running) -> None:
    assert f"listening on {server.url}: toy-0, drafter suffix, Ctrl-C stops\n" in server.told


def test_openais_client_chats(client: OpenAI) -> None:
    (model,) = client.models.list().data
    reply = client.chat.completions.create(model=model.id, messages=HELLO, max_tokens=20, temperature=0)
    assert reply.usage is not None
    assert (reply.choices[0].finish_reason, reply.usage.completion_tokens) == ("length", 20)
    with client.chat.completions.create(
        model=model.id, messages=HELLO, max_tokens=20, temperature=0, stream=True,
        stream_options={"include_usage": True},
    ) as stream:  # fmt: skip
        chunks = list(stream)
    said = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(said) == reply.choices[0].message.content
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 20


def test_openais_client_drafts_from_a_prediction(client: OpenAI) -> None:
    reply = client.chat.completions.create(
        model="any", messages=HELLO, max_completion_tokens=9, seed=3, stop=["zz"],
        prediction={"type": "content", "content": "the cat"},
    )  # fmt: skip
    assert reply.usage is not None
    assert reply.usage.completion_tokens_details is not None
    assert isinstance(reply.usage.completion_tokens_details.accepted_prediction_tokens, int)


def test_openais_client_completes_and_fills_in(client: OpenAI) -> None:
    whole = client.completions.create(model="any", prompt="the cat", suffix="mat", max_tokens=12)
    with client.completions.create(model="any", prompt="the cat", suffix="mat", max_tokens=12, stream=True) as stream:
        assert "".join(chunk.choices[0].text for chunk in stream) == whole.choices[0].text
    several = client.completions.create(model="any", prompt=["a", "b"], max_tokens=3)
    assert [choice.index for choice in several.choices] == [0, 1]


def test_openais_client_understands_what_is_refused(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as told:
        client.chat.completions.create(model="any", messages=HELLO, n=3)
    assert (told.value.param, told.value.code) == ("n", "unsupported_parameter")
    with pytest.raises(BadRequestError) as told:
        client.completions.create(model="any", prompt="a" * 40_000)
    assert told.value.code == "context_length_exceeded"


def test_openais_client_sends_the_key(server: Running) -> None:
    with (
        OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0) as client,
        pytest.raises(AuthenticationError),
    ):
        client.models.list()


@pytest.mark.parametrize("path", ["/v1/completions", "/completion"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_answer(server: Running, path: str, *, stream: bool) -> None:
    before = figure(server, "localspec:requests_cancelled_total")
    with httpx2.Client(headers=HEADERS) as client, ExitStack() as open_:
        if stream:
            lines = open_.enter_context(client.stream("POST", server.url + path, json={**LONG, "stream": True}))
            assert next(lines.iter_lines()).startswith("data: ")
        else:
            with pytest.raises(httpx2.ReadTimeout):
                client.post(server.url + path, json=LONG, timeout=0.5)
    until(lambda: figure(server, "localspec:requests_cancelled_total") == before + 1)
    assert figure(server, "localspec:requests_running") == figure(server, "localspec:requests_waiting") == 0


def test_who_waits_and_leaves_is_not_answered_either(server: Running) -> None:
    before = figure(server, "localspec:requests_cancelled_total")
    leaving = threading.Event()

    def ask() -> None:
        with (
            httpx2.Client(headers=HEADERS) as client,
            client.stream("POST", f"{server.url}/completion", json={**LONG, "stream": True}),
        ):
            leaving.wait(60)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: figure(server, "localspec:requests_running") == 2)
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{server.url}/completion", json=LONG, timeout=0.3, headers=HEADERS)
    until(lambda: figure(server, "localspec:requests_cancelled_total") == before + 1)
    assert figure(server, "localspec:requests_running") == 2
    leaving.set()
    for thread in threads:
        thread.join()
    until(lambda: figure(server, "localspec:requests_cancelled_total") == before + 3)


def test_silent_connections_keep_nobody_out(server: Running) -> None:
    with ExitStack() as open_:
        for count in range(400):
            silent = open_.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            if count % 2:
                silent.sendall(b"POST /infill HTTP/1.1\r\nHost: local")
        reply = httpx2.post(
            f"{server.url}/infill", json={"input_prefix": "a", "input_suffix": "b", "n_predict": 3}, headers=HEADERS
        )
        assert len(reply.json()["content"]) == 3


@pytest.mark.parametrize(
    "sent",
    [
        b"junk\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n",
        b"POST /infill HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_told_so_and_closed(server: Running, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(sent)
        got = b""
        while piece := raw.recv(65536):
            got += piece
    assert got.startswith(b"HTTP/1.1 400")
    assert json.loads(got.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    asked = {**LONG, "stream": True}
    with (
        running(tmp_path, "toy", "-c", "32768") as one,
        httpx2.stream("POST", f"{one.url}/completion", json=asked, timeout=60) as lines,
    ):
        next(lines.iter_lines())
        one.process.send_signal(signal.SIGINT)
        until(lambda: refuses(one.port))
        assert one.process.poll() is None, "the answer goes on"
        assert one.end(signal.SIGINT) == 130


def test_a_killed_server_leaves_no_file_behind(tmp_path: Path) -> None:
    with running(tmp_path, "toy") as one:
        with httpx2.stream("POST", f"{one.url}/completion", json={**LONG, "max_tokens": 200, "stream": True}) as lines:
            next(lines.iter_lines())
            assert one.end(signal.SIGKILL) == -signal.SIGKILL
        left = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert left == []


def test_nothing_is_written_on_the_way_of_results(server: Running) -> None:
    assert all("the cat" not in line for line in server.told)
