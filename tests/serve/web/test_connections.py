"""Hostile connections to a running server: many, silent, half-sent, endless, or with invalid HTTP."""

import json
import resource
import select
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from serving import Running, running, serve_here

from app.serve.requests import body
from app.serve.web import connection

HOST = b"Host: localhost\r\n"
TEXT = b'{"content": "the cat"}'
HEAD = b"POST /tokenize HTTP/1.1\r\nConnection: close\r\n" + HOST
LENGTH = b"Content-Length: %d\r\n" % len(TEXT)
ASK = HEAD + LENGTH + b"\r\n" + TEXT
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
TOKENS = [1, 7, 0, 26, 12, 2, 1]
IDLE = 1000
GET = ("/health", "/v1/health", "/v1/models", "/models", "/v1/models/toy-0", "/props", "/v1/props", "/metrics")
POST = (
    "/v1/chat/completions", "/chat/completions", "/v1/completions", "/completion", "/completions", "/infill",
    "/tokenize", "/detokenize",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("home"), "toy-fim", "--max-body", "0.01") as one:
        yield one
        assert not one.process.poll(), "it is still there after all that"


@contextmanager
def files(count: int) -> Iterator[None]:
    """Let this process have so many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def told(port: int, *sent: bytes) -> bytes:
    """Send pieces, and return everything that is told until the server closes the connection, "" if that is all."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        with suppress(ConnectionError):
            for piece in sent:
                raw.sendall(piece)
        return heard(raw)


def heard(raw: socket.socket) -> bytes:
    got = b""
    with suppress(ConnectionError):
        while piece := raw.recv(1 << 16):
            got += piece
    return got


def answers(got: bytes) -> list[tuple[int, Any]]:
    """Return the status and the JSON of answers that follow each other."""
    found = []
    while got:
        head, _, rest = got.partition(b"\r\n\r\n")
        lengths = [
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        ]
        length = lengths[0] if lengths else 0
        found.append((int(head.split()[1]), json.loads(rest[:length]) if length else None))
        got = rest[length:]
    return found


def still_answers(server: Running) -> None:
    asked = {"input_prefix": "a", "input_suffix": "b", "n_predict": 3}
    assert len(httpx2.post(f"{server.url}/infill", json=asked, timeout=20).json()["content"]) == 3


def is_open(raw: socket.socket) -> bool:
    """Tell whether the other end has not closed a connection on which nothing is said."""
    raw.setblocking(False)
    try:
        return raw.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def crowd(server: Running, count: int) -> int:
    """Open so many connections that say nothing, or half of something; return how many the server still has."""
    with files(count + 200), ExitStack() as open_:
        silent = [open_.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(count)]
        for raw in silent[::2]:
            # Those that were closed for others may be told so by an error.
            try:
                raw.sendall(b"POST /infill HTTP/1.1\r\nHost: local")
            except ConnectionError:
                continue
        still_answers(server)
        return sum(map(is_open, silent))


def test_a_thousand_idle_connections_keep_nobody_out(server: Running) -> None:
    assert 0 < crowd(server, IDLE) <= connection.MOST


@pytest.mark.skipif(sys.platform == "win32", reason="sockets are no files there")
@pytest.mark.parametrize("limits", ["(128, resource.getrlimit(resource.RLIMIT_NOFILE)[1])", "(128, 128)"])
def test_a_system_that_allows_few_files_keeps_nobody_out_either(tmp_path: Path, limits: str) -> None:
    before = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, {limits})"
    with running(tmp_path, "toy-fim", before=before) as one:
        most = 128 // 3 if limits == "(128, 128)" else connection.MOST
        assert 0 < crowd(one, 300) <= most


def test_requests_one_behind_the_other_are_answered_in_their_order(server: Running) -> None:
    ask = b"POST /detokenize HTTP/1.1\r\n" + HOST + b"Content-Length: 15\r\n\r\n" + b'{"tokens": [%d]}'
    got = answers(told(server.port, b"".join(ask % token for token in (1, 7, 0)) + ASK))
    assert got == [(200, {"content": letter}) for letter in "the"] + [(200, {"tokens": TOKENS})]


def test_a_bad_request_behind_a_good_one_does_not_spoil_it(server: Running) -> None:
    good = b"GET /v1/models HTTP/1.1\r\n" + HOST + b"\r\n"
    first, second = answers(told(server.port, good + b"nonsense\r\n\r\n"))
    assert (first[0], first[1]["object"]) == (200, "list")
    assert (second[0], second[1]["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize("behind", [b"\r\n", ASK])
def test_who_sends_more_behind_a_request_and_leaves_is_seen_to_leave(tmp_path: Path, behind: bytes) -> None:
    text = b'{"prompt": "the cat", "n_predict": 30000, "temperature": 0.9}'
    asked = b"POST /completion HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(text) + text

    def ask(url: str) -> bool:
        def soon(figure: str) -> bool:
            end = time.monotonic() + 5
            while figure not in httpx2.get(f"{url}/metrics").text and time.monotonic() < end:
                time.sleep(0.02)
            return time.monotonic() < end

        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as raw:
            raw.sendall(asked)
            assert soon("requests_running 1.0")
            raw.sendall(behind)
        return soon('requests_cancelled_total{kind="completion"} 1.0')

    assert serve_here(tmp_path, "toy", "-c", "32768", asks=ask)


def test_a_request_that_comes_byte_by_byte_is_read(server: Running) -> None:
    assert answers(told(server.port, *(bytes([byte]) for byte in ASK))) == [(200, {"tokens": TOKENS})]


@pytest.mark.parametrize("more", [b"", b'5\r\n{"con\r\n', b"ffffffff\r\n{"])
def test_who_hangs_up_in_the_middle_of_a_request_is_forgotten(server: Running, more: bytes) -> None:
    for sent in (ASK[:30], ASK[:-5], CHUNKED + more):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
            raw.sendall(sent)
            raw.shutdown(socket.SHUT_WR)
            assert not raw.recv(1000).startswith(b"HTTP/1.1 2")
    still_answers(server)


def test_a_body_in_pieces_without_end_is_cut_off(server: Running) -> None:
    got = told(server.port, CHUNKED, *[b"400\r\n" + b" " * 1024 + b"\r\n"] * 12)
    assert answers(got)[0][0] == 413


@pytest.mark.parametrize("length", [b"-1", b"1e3", b"99999999999999999999999", b"5\r\nContent-Length: 6", b"\xb2"])
def test_a_length_that_is_none_is_refused(server: Running, length: bytes) -> None:
    ((status, error),) = answers(told(server.port, HEAD + b"Content-Length: " + length + b"\r\n\r\n"))
    assert status in {400, 413}
    assert error["error"]["type"] == "invalid_request_error"


def test_headers_without_end_are_refused(server: Running) -> None:
    get = b"GET /health HTTP/1.1\r\nConnection: close\r\n" + HOST
    for bomb in (b"".join(b"X-%d: %s\r\n" % (number, b"a" * 50) for number in range(5000)), b"X: " + b"a" * 300_000):
        # A client that keeps sending unread bytes may lose its answer.
        assert [status for status, _ in answers(told(server.port, get + bomb))] in ([400], [])
    few = b"".join(b"X-%d: 1\r\n" % number for number in range(500))
    assert answers(told(server.port, get + few + b"\r\n"))[0][0] == 200


def test_older_http_is_answered(server: Running) -> None:
    got = told(server.port, b"GET /health HTTP/1.0\r\n" + HOST + b"\r\n")
    assert got.startswith(b"HTTP/1.1 200")
    ((status, error),) = answers(told(server.port, b"GET /health HTTP/1.0\r\n\r\n"))
    assert (status, error["error"]["code"]) == (403, "host_not_allowed")
    assert answers(told(server.port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))[-1][0] == 400


def test_who_asks_first_whether_to_send_a_body_is_told(server: Running) -> None:
    head, _, text = ASK.partition(b"\r\n\r\n")
    asked = head + b"\r\nExpect: 100-continue\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(asked)
        assert raw.recv(1000).startswith(b"HTTP/1.1 100")
        raw.sendall(text)
        assert answers(heard(raw)) == [(200, {"tokens": TOKENS})]
    elsewhere = asked.replace(b"localhost", b"evil.example")
    assert answers(told(server.port, elsewhere))[0][0] == 403, "and is not asked for the body"


@pytest.mark.parametrize("path", GET)
def test_heads_are_told_and_other_methods_refused_where_something_is_read(server: Running, path: str) -> None:
    head, whole = httpx2.head(server.url + path), httpx2.get(server.url + path)
    assert (head.status_code, head.content, whole.status_code) == (200, b"", 200)
    for method in ("OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"):
        refused = httpx2.request(method, server.url + path)
        assert (refused.status_code, "GET" in refused.headers["allow"]) == (405, True)
        assert refused.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", POST)
def test_other_methods_are_refused_where_something_is_asked(server: Running, path: str) -> None:
    head = httpx2.head(server.url + path)
    assert (head.status_code, head.content) == (405, b"")
    for method in ("GET", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"):
        refused = httpx2.request(method, server.url + path)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    empty = httpx2.post(server.url + path)
    assert (empty.status_code, empty.json()["error"]["type"]) == (400, "invalid_request_error")


def test_a_body_that_drips_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "_SECONDS", 0.3)

    def ask(url: str) -> bytes:
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as raw:
            raw.sendall(CHUNKED + b"1\r\n{\r\n")
            for _ in range(400):
                if select.select([raw], [], [], 0.05)[0]:
                    return heard(raw)
                raw.sendall(b"1\r\n \r\n")
        raise AssertionError("it waited")

    ((status, error),) = answers(serve_here(tmp_path, "toy", asks=ask))
    assert (status, "within 0.3 seconds" in error["error"]["message"]) == (408, True)


def test_the_engine_is_there_after_all_that(server: Running) -> None:
    still_answers(server)
    lines = httpx2.get(f"{server.url}/metrics").text.splitlines()
    assert {"localspec:requests_running 0.0", "localspec:requests_waiting 0.0"} <= {*lines}
    assert not any('status="5' in line for line in lines)
