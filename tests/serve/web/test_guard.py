"""Access to the server, and limits of requests: names, pages, keys, bodies, and their number."""

import asyncio
import gzip
import json
import logging
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click import BadParameter
from serving import Served, plan_of, served

from app.engine.decoding.ending import Finish
from app.serve.replies.errors import Refused
from app.serve.requests.engine_request import EngineRequest, RequestKind
from app.serve.web.hosts import is_everywhere, is_loopback, name_of
from models.errors import UsageError
from models.text.prompts import Message as Turn

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}
PATHS = (CHAT, "/v1/completions", "/infill", "/completion", "/tokenize", "/detokenize")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy-fim", "--max-body", "0.01") as one:
        yield one


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080", "[::1]"])
def test_the_server_is_known_by_the_names_of_this_machine(server: Served, host: str) -> None:
    assert server.client.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.7", "", "["])
def test_other_names_are_refused_so_that_no_page_points_its_own_here(server: Served, host: str) -> None:
    response = server.client.get("/health", headers={"Host": host})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "host_not_allowed")


@pytest.mark.parametrize("allowed", ["Box.local", "box.local:8080"])
def test_more_names_can_be_allowed(tmp_path: Path, allowed: str) -> None:
    with served(tmp_path, "toy", "--allow-host", allowed) as one:
        assert one.client.get("/health", headers={"Host": "box.local:8080"}).status_code == 200
        assert one.client.get("/health", headers={"Host": "other.local"}).status_code == 403


@pytest.mark.parametrize("all_", ["0.0.0.0", "0", "::", "[::]"])
@pytest.mark.parametrize(("host", "status"), [("10.0.0.7:8080", 200), ("[fe80::1]", 200), ("box.local", 403)])
def test_a_server_on_all_addresses_goes_by_addresses(tmp_path: Path, all_: str, host: str, status: int) -> None:
    with served(tmp_path, "toy", "--host", all_, "--api-key", "k") as one:
        assert one.client.get("/health", headers={"Host": host}).status_code == status


@pytest.mark.parametrize("path", PATHS)
def test_scripts_of_web_pages_are_refused(server: Served, path: str) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:8080"):
        response = server.client.post(path, json=HELLO, headers={"Origin": origin})
        assert (response.status_code, response.json()["error"]["code"]) == (403, "origin_not_allowed")
        assert "access-control-allow-origin" not in response.headers


def test_a_page_that_is_allowed_gets_its_answers_and_no_other_does(tmp_path: Path) -> None:
    with served(tmp_path, "toy", "--allow-origin", "http://localhost:3000", "--api-key", "k") as one:
        mine = {"Origin": "http://localhost:3000"}
        asking = {**mine, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        before = one.client.options(CHAT, headers=asking)
        assert (before.status_code, before.headers["access-control-allow-origin"]) == (200, mine["Origin"])
        response = one.client.post(CHAT, json=HELLO, headers={**mine, "Authorization": "Bearer k"})
        assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, mine["Origin"])
        # A page can't read a refusal without it.
        refused = one.client.post(CHAT, json=HELLO, headers=mine)
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, mine["Origin"])
        assert one.client.options(CHAT, headers={**asking, "Origin": "http://localhost:3001"}).status_code == 403


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("http://localhost:3000/", "http://localhost:3000"), ("HTTPS://Box.Local:443", "https://box.local"),
        ("http://[::1]:80/", "http://[::1]"), ("chrome-extension://abc", "chrome-extension://abc"), ("*", "*"),
        ("null", "null"), ("file://", "file://"), ("file:///", "file://"),
    ],
)  # fmt: skip
def test_an_origin_is_compared_as_browsers_send_it(tmp_path: Path, said: str, sent: str) -> None:
    assert plan_of(tmp_path, "toy", "--allow-origin", said).door.origins == (sent,)


@pytest.mark.parametrize(
    "said",
    ["", "localhost:3000", "http://", "http://a/page", "http://a?b", "http://me@a", "http://a:x", "http://*.a/b"],
)
def test_what_is_no_origin_is_refused(tmp_path: Path, said: str) -> None:
    with pytest.raises(UsageError, match="is not an origin"):
        plan_of(tmp_path, "toy", "--allow-origin", said)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic sesam"}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"X-Api-Key": "wrong"}, 401),
        ({"Authorization": "Bearer sesam"}, 200),
        ({"Authorization": "bearer sesam"}, 200),
        ({"X-Api-Key": "sesam"}, 200),
    ],
)
def test_who_has_the_key_comes_in(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    with served(tmp_path, "toy", "--api-key", "sesam") as one:
        for path in ("/v1/models", "/metrics", "/props", "/nowhere"):
            response = one.client.get(path, headers=headers)
            assert response.status_code == (404 if status == 200 and path == "/nowhere" else status)
        if status == 401:
            assert response.json()["error"] == {
                "message": "The API key is missing or wrong.", "type": "authentication_error",
                "param": None, "code": "invalid_api_key",
            }  # fmt: skip
        assert one.client.get("/health").status_code == 200, "open to programs that wait for the server"


def test_a_host_that_others_can_reach_demands_a_key(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no API key is set"):
        plan_of(tmp_path, "toy", "--host", "0.0.0.0")
    assert plan_of(tmp_path, "toy", "--host", "0.0.0.0", "--api-key", "k").door.key == "k"
    assert plan_of(tmp_path, "toy", "--host", "localhost").door.key == ""


@pytest.mark.parametrize(
    ("host", "wanted"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("localhost", True), ("LOCALHOST", True),
     ("0.0.0.0", False), ("::", False), ("192.168.0.1", False), ("localhost.evil.example", False), ("", False)],
)  # fmt: skip
def test_what_others_can_not_reach_is_known(host: str, wanted: bool) -> None:
    assert is_loopback(host) is wanted


@pytest.mark.parametrize(
    ("host", "wanted"),
    [("0", True), ("0.0", True), ("0.0.0.0", True), ("::", True), ("[::]", True), ("0:0:0:0:0:0:0:0", True),
     ("127.0.0.1", False), ("::1", False), ("localhost", False), ("zero.example", False), ("", False), ("a..b", False)],
)  # fmt: skip
def test_all_addresses_are_known_however_they_are_spelled(host: str, wanted: bool) -> None:
    assert is_everywhere(host) is wanted


def test_names_are_read_without_their_ports() -> None:
    hosts = ("A.b:80", "a.b", "[::1]:80", "::1", "1.2.3.4:5")
    assert [name_of(host) for host in hosts] == ["a.b", "a.b", "::1", "::1", "1.2.3.4"]


@pytest.mark.parametrize("path", PATHS)
def test_a_body_that_is_too_large_is_refused_told_or_not(server: Served, path: str) -> None:
    large = json.dumps({"prompt": "a" * 20_000}).encode()
    for content in (large, iter([large[:9000], large[9000:]])):
        response = server.client.post(path, content=content)
        assert (response.status_code, response.json()["error"]["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"5", b"null", b'"text"', b"\xff{}", b'{"a": "\xc3"}', b'{"a": NaN}', b'{"a": Infinity}',
     b"[" * 5000, b'{"a":' * 1000 + b"1" + b"}" * 1000, b'{"a":' * 129 + b"1" + b"}" * 129,
     b'{"n_predict": ' + b"1" * 5000 + b"}"],
)  # fmt: skip
def test_what_is_no_json_object_is_refused(server: Served, path: str, body: bytes) -> None:
    response = server.client.post(path, content=body)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(("coding", "status"), [("gzip", 415), ("identity, br", 415), ("Identity", 200), ("", 200)])
def test_a_body_that_is_packed_is_refused_for_that(server: Served, coding: str, status: int) -> None:
    body, headers = b'{"content": "the cat"}', {"Content-Encoding": coding}
    packed = body if status == 200 else gzip.compress(body)
    response = server.client.post("/tokenize", content=packed, headers=headers)
    assert response.status_code == status
    assert ("Content-Encoding" in response.text) == (status == 415)


def test_a_byte_order_mark_before_the_json_is_no_part_of_it(server: Served) -> None:
    body = b'\xef\xbb\xbf{"content": "the cat"}'
    assert server.client.post("/tokenize", content=body).json() == server.post("/tokenize", content="the cat")


def test_a_body_that_does_not_come_is_not_waited_for(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.serve.requests.body._SECONDS", 0.05)

    async def ask() -> list[Any]:
        sent: list[Any] = []
        scope = {
            "type": "http",
            "method": "POST",
            "path": CHAT,
            "headers": [(b"host", b"localhost")],
            "query_string": b"",
        }

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            await asyncio.Event().wait()

        await server.client.app(scope, receive, send)  # type: ignore[arg-type]
        return sent

    assert server.client.portal is not None
    assert server.client.portal.call(ask)[0]["status"] == 408


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/v1/nothing", 404), ("GET", CHAT, 405), ("POST", "/health", 405),
     ("GET", "/../etc", 404), ("GET", "/v1/models/other", 404), ("DELETE", "/v1/models", 405)],
)  # fmt: skip
def test_paths_that_are_not_there_are_told_in_the_same_shape(
    server: Served, method: str, path: str, status: int
) -> None:
    response = server.client.request(method, path)
    assert response.status_code == status
    assert sorted(response.json()["error"]) == ["code", "message", "param", "type"]


def test_nothing_is_answered_while_the_model_loads(tmp_path: Path) -> None:
    with served(tmp_path, "toy-fim", loads=False) as one:
        for response in (
            *(one.client.get(path) for path in ("/health", "/v1/models", "/props")),
            *(one.client.post(path, json=HELLO) for path in PATHS),
        ):
            assert (response.status_code, response.json()["error"]["code"]) == (503, "loading")
            assert response.headers["retry-after"]
        assert one.client.get("/metrics").status_code == 200
        assert one.client.portal is not None
        one.client.portal.call(one.service.load, lambda _, __: None)
        assert one.client.get("/health").json()["status"] == "ok"


def ask_at_once(one: Served, count: int) -> list[object]:
    """Ask several long questions at once; return how each ended."""

    async def ask() -> list[object]:
        answers = [one.service.whole(question(one, 300)) for _ in range(count)]
        return await asyncio.gather(*answers, return_exceptions=True)

    assert one.client.portal is not None
    return one.client.portal.call(ask)


def question(one: Served, tokens: int) -> EngineRequest:
    base = one.service.settings.chatting
    turns = (Turn("user", "the cat"),)
    return EngineRequest(type(base)(turns=turns, sampling=base.sampling, max_tokens=tokens), RequestKind.CHAT)


def test_only_so_many_may_wait(tmp_path: Path) -> None:
    with served(tmp_path, "toy", "-np", "1", "--queue", "2") as one:
        ended = ask_at_once(one, 5)
        refused = [error for error in ended if isinstance(error, Refused)]
        assert [(error.status, error.code) for error in refused] == [(503, "busy")] * 2
        assert one.service._admitted == 0
        assert one.post(CHAT, **HELLO)["choices"], "when they are gone, others may come"


def test_who_reads_slowly_keeps_no_place(tmp_path: Path) -> None:
    with served(tmp_path, "toy", "-np", "1", "--queue", "0") as one:

        async def ask() -> list[Any]:
            async with aclosing(one.service.speak(question(one, 300))) as slow:
                told = [await anext(slow)]
                with pytest.raises(Refused):
                    await one.service.whole(question(one, 2))
                for _ in range(1000):
                    # The engine finishes the answer long before the client reads it.
                    await asyncio.sleep(0.01)
                    if one.service._admitted == 0:
                        break
                quick = await one.service.whole(question(one, 2))
                told += [said async for said in slow]
            return [quick, *told]

        assert one.client.portal is not None
        quick, *told, outcome = one.client.portal.call(ask)
        assert (quick.stats.emitted, outcome.stats.emitted) == (2, 300)
        assert outcome.text == "".join(piece.text for piece in told) + outcome.rest
        assert one.service._admitted == 0


def test_who_waits_too_long_is_told_to_come_again(tmp_path: Path) -> None:
    impatient = plan_of(tmp_path, "toy", "--timeout", "0.01").limits
    with served(tmp_path, "toy", "-np", "1", "-c", "32768") as one:

        async def ask() -> list[Any]:
            async with aclosing(one.service.speak(question(one, 30_000))) as running:
                await anext(running)
                # Only now: the first would be too late for it too.
                one.service.settings = replace(one.service.settings, limits=impatient)
                waiting = [one.service.whole(question(one, 300)) for _ in range(2)]
                warms = EngineRequest(replace(question(one, 1).question, max_tokens=0), RequestKind.INFILL)
                further = asyncio.ensure_future(one.service.whole(question(one, 2), further=True))
                ended = await asyncio.gather(*waiting, one.service.whole(warms), return_exceptions=True)
            # What goes on where another prompt of its request ended waits as long as it takes.
            return [*ended, await further]

        assert one.client.portal is not None
        *ended, warmed, further = one.client.portal.call(ask)
        assert (warmed.text, warmed.finish) == ("", Finish.CANCELLED), "a warm-up is never refused"
        assert further.stats.emitted == 2
        refused = [error for error in ended if isinstance(error, Refused)]
        assert [(error.status, error.code) for error in refused] == [(503, "busy")] * 2
        assert refused[0].response().headers["retry-after"]


def test_a_time_that_every_request_would_be_too_late_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"0\.01<=x<=86400"):
        plan_of(tmp_path, "toy", "--timeout", "0")
    assert plan_of(tmp_path, "toy", "--grace", "0").limits.grace == 0


def test_a_mistake_of_the_servers_own_is_told_and_logged_without_what_was_said(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    question = "the secret question"

    def fail(*_: object) -> None:
        raise ValueError(question)

    monkeypatch.setattr("app.serve.requests.asking.read_chat", fail)
    with caplog.at_level(logging.DEBUG):
        response = server.client.post(CHAT, json=HELLO)
    assert (response.status_code, response.json()["error"]["type"]) == (500, "server_error")
    told = "\n".join(record.getMessage() for record in caplog.records)
    assert "ValueError" in told
    assert "secret" not in told + response.text


def test_a_page_that_is_allowed_is_told_of_a_mistake_of_the_servers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.serve.requests.asking.read_chat", lambda *_: 1 / 0)
    with served(tmp_path, "toy", "--allow-origin", "http://localhost:3000") as one:
        response = one.client.post(CHAT, json=HELLO, headers={"Origin": "http://localhost:3000"})
    assert (response.status_code, response.json()["error"]["type"]) == (500, "server_error")
    assert response.headers["access-control-allow-origin"] == "http://localhost:3000"


def test_nothing_that_is_said_is_logged(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        server.post(CHAT, messages=[{"role": "user", "content": "zebra"}], max_tokens=2)
        server.refused(CHAT, messages=[{"role": "zebra", "content": "zebra"}])
        server.refused("/v1/completions", prompt="zebra" * 200)
    assert "zebra" not in caplog.text
