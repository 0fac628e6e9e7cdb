"""Large bodies: parsed beside the event loop, and refused where parsing would hold up every other thread."""

import json
import threading
from collections.abc import Iterator

import pytest
from serving import Served, served

from app.serve.requests import body
from app.serve.requests.fields import Fields
from app.serve.requests.turns import read_turns

JSON = {"Content-Type": "application/json"}
MANY = 4_000_000
SMALL: dict[str, dict[str, object]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1},
    "/v1/completions": {"prompt": "a", "max_tokens": 1},
    "/completion": {"prompt": "a", "n_predict": 1},
    "/infill": {"input_prefix": "a", "input_suffix": "b", "n_predict": 1},
    "/tokenize": {"content": "a"},
    "/detokenize": {"tokens": [1]},
}
COSTLY = {
    "numbers": "[" + "1," * MANY + "1]",
    "objects": "[" + "{}," * (MANY // 2) + "1]",
    "lists": "[" + "[]," * (MANY // 2) + "1]",
    "deep lists": "[" + ("[" * 100 + "]" * 100 + ",") * (MANY // 110) + "1]",
    "members": "{" + "".join(f'"{each:06}":1,' for each in range(MANY // 6)) + '"a":1}',
    "strings": "[" + '"",' * (MANY // 3) + "1]",
    "what has no end": "[" + "1," * MANY,
    "strings alone": '""' * (MANY // 2),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy-fim", "-n", "4", "-c", "256") as one:
        yield one


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Collect the thread and the length of each text that is parsed."""
    seen: list[tuple[str, int]] = []
    parse = body.parse

    def noted(text: str) -> object:
        seen.append((threading.current_thread().name, len(text)))
        return parse(text)

    monkeypatch.setattr(body, "parse", noted)
    return seen


@pytest.mark.parametrize("name", COSTLY)
@pytest.mark.parametrize("path", ["/completion", "/v1/chat/completions"])
def test_a_body_of_too_many_parts_is_refused_before_it_is_parsed(
    server: Served, parsed: list[tuple[str, int]], path: str, name: str
) -> None:
    sent = f'{json.dumps(SMALL[path])[:-1]}, "json_schema": {COSTLY[name]}}}'
    response = server.client.post(path, content=sent, headers=JSON)
    assert (response.status_code, parsed) == (400, [])
    assert response.json()["error"]["message"] == (
        "The JSON has more than 262,144 commas, opening brackets and strings."
    )


@pytest.mark.parametrize("path", SMALL)
def test_a_large_body_is_parsed_beside_the_event_loop(server: Served, parsed: list[tuple[str, int]], path: str) -> None:
    sent = json.dumps({**SMALL[path], "user": 'a,"[{' * 200_000})
    response = server.client.post(path, content=sent, headers=JSON)
    assert response.status_code == 200, response.text
    assert parsed == [("body_0", len(sent))]


def test_a_long_text_may_have_any_number_of_commas(server: Served) -> None:
    prefix = 'a,[{"\n' * 300_000
    reply = server.post("/infill", input_prefix=prefix, input_suffix="b", n_predict=3)
    assert len(reply["content"]) == 3


def test_a_prompt_of_as_many_tokens_as_the_longest_context_is_no_large_one(server: Served) -> None:
    status, error = server.refused("/completion", prompt=[1] * (1 << 17))
    assert (status, error["code"]) == (400, "context_length_exceeded")


def test_numbers_of_thousands_of_digits_leave_other_threads_their_turn() -> None:
    """`int` itself as `parse_int` would be called in C from beginning to end."""
    sent = ("[" + ("9" * 4000 + ",") * 2000 + "1]").encode()
    done, turns = threading.Event(), 0
    thread = threading.Thread(target=lambda: (body.parse(sent.decode()), done.set()))
    thread.start()
    while not done.is_set():
        turns += 1
        done.wait(0.001)
    thread.join()
    assert turns > 5


def test_arguments_of_too_many_parts_stay_text() -> None:
    """They would be parsed twice, and are nothing that a model wrote."""

    def said(count: int) -> tuple[int, str]:
        arguments = '{"a": [' + "1," * count + "1]}"
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        turn = read_turns(Fields({"messages": [{"role": "assistant", "tool_calls": [call]}]}))[0]
        return len(turn.calls), turn.text

    assert said(100) == (1, "")
    calls, text = said(1 << 17)
    assert calls == 0
    assert text.startswith('{"name": "f", "arguments": {"a": [1,1,')


def test_a_schema_as_text_is_refused_by_its_length_before_it_is_parsed(server: Served) -> None:
    text = '{"enum": [' + "1," * 600_000 + "1]}"
    _, error = server.refused("/completion", prompt="a", json_schema=text)
    assert "more than 1,048,576 characters" in error["message"]
