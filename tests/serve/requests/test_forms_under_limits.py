"""Forms under limits: what is costly is refused, nothing waits for it, and an odd keyword costs no tools."""

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from calling_toy import CallingToy
from serving import Served, served
from thinking_toy import ThinkingToy

from app.engine.runtime import load
from app.serve import service
from app.serve.requests import tokens
from models.forms.grammar_state import Compiler

CHAT, TEXT, INFILL, PLAIN = "/v1/chat/completions", "/v1/completions", "/infill", "/completion"
NEEDED: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "is the sea blue?"}]},
    TEXT: {"prompt": "the sea is"},
    INFILL: {"input_prefix": "the sea is ", "input_suffix": " today"},
    PLAIN: {"prompt": "the sea is"},
}
PATTERNS = {"allOf": [{"type": "string", "pattern": f"a.{{{count}}}b"} for count in range(1, 25)]}
WORDS = {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def function(name: str, parameters: object, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy-fim", "-c", "256") as one:
        yield one


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", CallingToy)
        with served(tmp_path_factory.mktemp("calls"), "toy", "-c", "4096") as one:
            yield one


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", NEEDED)
def test_a_costly_form_is_refused_by_its_name(server: Served, path: str) -> None:
    status, error = server.refused(path, **NEEDED[path], json_schema=PATTERNS)
    assert (status, error["param"]) == (400, "json_schema")
    assert "compile" in error["message"]
    assert server.post(path, **NEEDED[path], json_schema={"type": "null"})


def test_costly_parameters_are_refused_by_their_name(calling: Served) -> None:
    tools = [function("f", {"type": "object", "properties": {"a": PATTERNS}})]
    status, error = calling.refused(CHAT, **NEEDED[CHAT], tools=tools)
    assert (status, error["param"]) == (400, "tools[0].function.parameters")
    assert "compile" in error["message"]


def test_tools_that_are_costly_together_are_refused(calling: Served) -> None:
    words = {"enum": [f"{'word' * 20}{place}" for place in range(600)]}
    tools = [function(f"f{place}", {"type": "object", "properties": {"a": words}}) for place in range(60)]
    status, error = calling.refused(CHAT, **NEEDED[CHAT], tools=tools)
    assert (status, error["param"]) == (400, "tools")
    assert "together" in error["message"]


@pytest.mark.parametrize("path", NEEDED)
def test_a_form_is_compiled_on_neither_the_event_loop_nor_the_engines_thread(
    server: Served, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    compiled = Compiler._compiled

    def watched(self: Compiler, grammar: Any) -> Any:
        threads.append(threading.current_thread().name)
        return compiled(self, grammar)

    def deep(call: Any) -> Any:
        return call()

    monkeypatch.setattr(Compiler, "_compiled", watched)
    monkeypatch.setattr("models.forms.grammar_state.call_deep", deep)
    server.post(path, **NEEDED[path], grammar=f'root ::= "the sea{"a" * len(path)}"', max_tokens=2)
    assert len(threads) == 1
    assert threads[0].startswith("form")


def test_health_answers_while_a_form_is_compiled(server: Served) -> None:
    status: list[int] = []
    sent = threading.Thread(
        target=lambda: status.append(
            server.send(PLAIN, {"prompt": "a", "json_schema": {**PATTERNS, "title": "b"}}).status_code
        )
    )
    sent.start()
    answered = 0
    while sent.is_alive():
        assert server.client.get("/health").status_code == 200
        answered += 1
    assert answered > 1, "it did not wait for the form"
    assert status == [400]


def test_the_vocabulary_is_read_for_forms_before_the_first_request(tmp_path: Any) -> None:
    with served(tmp_path, "toy", "-c", "64") as one:
        assert one.client.portal is not None
        compiles = one.client.portal.call(one.service._async_engine.look, service._compiler)
        assert isinstance(compiles, Compiler)
        vocab = one.client.portal.call(one.service._async_engine.look, lambda worker: worker.vocab)
        from models.forms import grammar_state

        assert vocab in grammar_state._compilers


# --- long texts -------------------------------------------------------------------------------------------------------


def test_a_long_text_is_tokenised_beside_the_engine(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    spelled = tokens._written

    def watched(found: Any, warnings: Any) -> bytes:
        threads.append(threading.current_thread().name)
        return spelled(found, warnings)

    monkeypatch.setattr("app.serve.service.call_deep", lambda call: call())
    monkeypatch.setattr(tokens, "_written", watched)
    text = "the sea " * 5000
    found = server.post("/tokenize", content=text)["tokens"]
    assert len(found) > 2 * tokens._AT_ONCE
    assert threads[0].startswith("text")
    assert server.post("/detokenize", tokens=found)["content"] == text
    pieces = server.post("/tokenize", content=text, with_pieces=True)["tokens"]
    assert [each["id"] for each in pieces] == found
    assert server.post("/tokenize", content="") == {"tokens": []}


# --- forms that are owed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{"json_schema": {"const": False}}, {"grammar": 'root ::= "yes" | "no"'}])
@pytest.mark.parametrize("seed", range(6))
def test_a_model_that_thinks_owes_the_form_or_is_cut(tmp_path: Any, asked: dict[str, Any], seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "ToyModel", ThinkingToy)
        with served(tmp_path, "toy", "-c", "256") as one:
            for limit in (3, 60):
                body = {**NEEDED[CHAT], **asked, "temperature": 1.5, "seed": seed, "max_tokens": limit}
                (choice,) = one.post(CHAT, **body)["choices"]
                whole = choice["message"]["content"] in ("false", "yes", "no")
                assert whole is (choice["finish_reason"] == "stop"), choice


# --- odd keywords -----------------------------------------------------------------------------------------------------


def test_one_odd_keyword_costs_no_tools_and_is_told(calling: Served, caplog: pytest.LogCaptureFixture) -> None:
    tools = [function("weather", CITY), function("words", WORDS)]
    warning = (
        "'tools[1].function.parameters' has 'uniqueItems', which this server does not enforce: arguments may break it."
    )
    body = {**NEEDED[CHAT], "tools": tools, "max_tokens": 4}
    with caplog.at_level(logging.WARNING, "localspec.serve"):
        assert calling.post(CHAT, **body)["warnings"] == [warning]
    assert warning in caplog.text
    *_, last, done = calling.events(CHAT, **body)
    assert (last["warnings"], done) == ([warning], "[DONE]")
    assert "warnings" not in calling.post(CHAT, **{**body, "tools": tools[:1]})


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"tools": [function("words", WORDS, strict=True)]}, "tools[0].function.parameters"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": WORDS, "strict": True}}},
            "response_format",
        ),
        ({"json_schema": WORDS}, "json_schema"),
    ],
)
def test_what_is_strict_refuses_the_keyword_by_name(calling: Served, asked: dict[str, Any], param: str) -> None:
    status, error = calling.refused(CHAT, **NEEDED[CHAT], **asked)
    assert (status, error["param"]) == (400, param)
    assert "uniqueItems" in error["message"]


def test_a_pattern_that_can_not_be_enforced_is_named_as_one(calling: Served) -> None:
    _, error = calling.refused(CHAT, **NEEDED[CHAT], json_schema={"type": "string", "pattern": "^(?=a)b"})
    assert "pattern" in error["message"]
    assert "look-ahead" in error["message"]
