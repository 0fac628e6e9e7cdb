"""The server as a process: OpenAI's own client, clients that leave, signals, and connections that say nothing."""

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AuthenticationError, BadRequestError, NotFoundError, OpenAI
from serving import Running, running
from tiny_gguf import write_llama

KEY = "sesam"
HEADERS = {"Authorization": f"Bearer {KEY}"}
HELLO: list[Any] = [{"role": "user", "content": "the cat sat on the mat. the cat"}]
PARTS = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
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


@pytest.mark.parametrize(("model", "told"), [("toy", 1), ("toy-fim", 0)])
def test_a_server_for_editors_tells_that_its_model_can_not_infill(tmp_path: Path, model: str, told: int) -> None:
    with running(tmp_path, model, "--fim") as one:
        assert sum("note: toy-0 can't fill in code" in line for line in one.told) == told


def test_openais_client_chats(client: OpenAI) -> None:
    (model,) = client.models.list().data
    assert client.models.retrieve(model.id).id == model.id
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


def test_openais_client_sends_prompts_as_tokens(client: OpenAI) -> None:
    prompts = [[29, 28, 0], [1, 7, 0]]
    reply = client.completions.create(model="any", prompt=prompts, max_tokens=3, temperature=0)
    assert reply.usage is not None
    assert (len(reply.choices), reply.usage.prompt_tokens, reply.usage.completion_tokens) == (2, 6, 6)
    one = client.completions.create(model="any", prompt=prompts[0], max_tokens=3, temperature=0)
    assert one.choices[0].text == reply.choices[0].text
    assert one.usage is not None
    assert one.usage.prompt_tokens == 3


def test_openais_client_carries_a_conversation_on(client: OpenAI) -> None:
    """Its messages have members that are null, its contents are parts, and its instructions come from a developer."""
    ask = partial(client.chat.completions.create, model="any", max_completion_tokens=5, max_tokens=9, temperature=0)
    first = ask(messages=HELLO).choices[0].message
    turns = [{"role": "developer", "content": "be kind"}, *HELLO, first, {"role": "user", "content": PARTS}]
    told = ask(messages=turns, stop=["<a>", "<b>"], seed=1, response_format={"type": "text"}, n=1)
    text = [{"role": "system", "content": "be kind"}, *HELLO, {"role": "assistant", "content": first.content}]
    plain = ask(messages=[*text, {"role": "user", "content": "one\ntwo"}])
    assert told.choices[0].message.content == plain.choices[0].message.content
    assert told.usage is not None
    assert told.usage.completion_tokens == 5
    assert plain.usage is not None
    assert told.usage.prompt_tokens == plain.usage.prompt_tokens


def test_openais_client_gathers_a_stream(client: OpenAI) -> None:
    whole = client.chat.completions.create(model="any", messages=HELLO, max_tokens=60, temperature=0)
    stop = (whole.choices[0].message.content or "")[20:23]
    with client.chat.completions.stream(
        model="any", messages=HELLO, max_tokens=60, temperature=0, stop=[stop], stream_options={"include_usage": True}
    ) as stream:
        kinds = {event.type for event in stream}
        gathered = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert gathered.choices[0].finish_reason == "stop"
    assert gathered.choices[0].message.content == (whole.choices[0].message.content or "").partition(stop)[0]
    assert gathered.usage is not None


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("n", 9, "n"), ("tools", TOOLS, "tools"), ("messages", [], "messages"),
        ("response_format", {"type": "json_schema", "json_schema": {}}, "response_format.json_schema.schema"),
        ("response_format", {"type": "regex"}, "response_format.type"), ("tool_choice", "required", "tool_choice"),
        ("logit_bias", {"999999": -100}, "logit_bias"), ("web_search_options", {}, "web_search_options"),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}],
         "messages[0].content[0].type"),
    ],
)  # fmt: skip
def test_openais_client_is_told_which_field_can_not_be_had(client: OpenAI, field: str, value: Any, param: str) -> None:
    asked: dict[str, Any] = {"model": "any", "messages": HELLO, "max_tokens": 2, field: value}
    with pytest.raises(BadRequestError) as told:
        client.chat.completions.create(**asked)
    assert told.value.param == param
    assert param in told.value.message


def test_openais_client_is_told_of_paths_that_are_not_there(client: OpenAI) -> None:
    with pytest.raises(NotFoundError, match="--embedding-model"):
        client.embeddings.create(model="any", input="hi")
    with pytest.raises(NotFoundError, match="serve --help"):
        client.images.generate(prompt="hi")


def test_openais_client_understands_what_is_refused(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as told:
        client.chat.completions.create(model="any", messages=HELLO, extra_body={"echo": True})
    assert (told.value.param, told.value.code) == ("echo", "unsupported_parameter")
    with pytest.raises(BadRequestError) as told:
        client.completions.create(model="any", prompt="a" * 40_000)
    assert told.value.code == "context_length_exceeded"


def test_openais_client_sends_the_key(server: Running) -> None:
    with (
        OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0) as client,
        pytest.raises(AuthenticationError),
    ):
        client.models.list()


@contextmanager
def asked(server: Running, path: str) -> Iterator[None]:
    """Ask what takes minutes, and leave without waiting for the answer."""
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=20)) as client:
        client.request("POST", path, json.dumps(LONG), {**HEADERS, "Content-Type": "application/json"})
        yield


@pytest.mark.parametrize("path", ["/v1/completions", "/completion"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_answer(server: Running, path: str, *, stream: bool) -> None:
    before = figure(server, "localspec:requests_cancelled_total")
    with httpx2.Client(headers=HEADERS) as client, ExitStack() as open_:
        if stream:
            lines = open_.enter_context(client.stream("POST", server.url + path, json={**LONG, "stream": True}))
            assert next(lines.iter_lines()).startswith("data: ")
        else:
            open_.enter_context(asked(server, path))
            until(lambda: figure(server, "localspec:requests_running") == 1)
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
    with asked(server, "/completion"):
        until(lambda: figure(server, "localspec:requests_waiting") == 1)
    until(lambda: figure(server, "localspec:requests_cancelled_total") == before + 1)
    assert figure(server, "localspec:requests_running") == 2
    leaving.set()
    for thread in threads:
        thread.join()
    until(lambda: figure(server, "localspec:requests_cancelled_total") == before + 3)


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
    except (ConnectionRefusedError, ConnectionResetError):  # Reset: it was let go while this one knocked.
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


def test_a_killed_server_leaves_files_that_the_next_one_reads(tmp_path: Path) -> None:
    """A file with weights is measured, and what was found out is kept: nothing of it may be half there."""
    model = write_llama(tmp_path / "tiny.gguf", n_ctx=2048)
    home, asked = tmp_path / "home", {"prompt": "the hello hello", "temperature": 0, "max_tokens": 24}
    home.mkdir()
    with running(home, str(model)) as one:
        said = httpx2.post(f"{one.url}/v1/completions", json=asked, timeout=60).json()["choices"]
        long = {**LONG, "max_tokens": 1500, "stream": True}
        with httpx2.stream("POST", f"{one.url}/completion", json=long, timeout=60) as lines:
            next(lines.iter_lines())
            assert one.end(signal.SIGKILL) == -signal.SIGKILL
    (memory,) = home.rglob("machine.json")
    found = json.loads(memory.read_text())
    assert found
    # A kill while it was written would have left this beside it.
    (memory.parent / "machine.jsonx.partial").write_text('{"half": ')
    with running(home, str(model)) as one:
        assert httpx2.post(f"{one.url}/v1/completions", json=asked, timeout=60).json()["choices"] == said
        assert one.end(signal.SIGTERM) == 0
    assert json.loads(memory.read_text()).keys() >= found.keys()
    kept = [path for path in home.rglob("*") if path.is_file()]
    assert all(b"hello" not in path.read_bytes() for path in kept), "what is said is not kept"


def test_nothing_that_is_asked_is_told(server: Running) -> None:
    assert all("the cat" not in line for line in server.told)
