"""Answers in a form, asked for in each protocol's own way."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from serving import Served, served

CHAT, TEXT, INFILL, PLAIN = "/v1/chat/completions", "/v1/completions", "/infill", "/completion"
NEEDED: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "is the sea blue?"}]},
    TEXT: {"prompt": "the sea is"},
    INFILL: {"input_prefix": "the sea is ", "input_suffix": " today"},
    PLAIN: {"prompt": "the sea is"},
}
BOOLEAN = {"type": "boolean"}
RHYME = 'root ::= "the " ("cat" | "hat") " sat."'


def in_json(about: dict[str, Any]) -> dict[str, Any]:
    """Return what asks for JSON as OpenAI's clients do."""
    return {"response_format": {"type": "json_schema", "json_schema": about}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("serve"), "toy-fim", "-c", "256") as one:
        yield one


def said(path: str, reply: dict[str, Any]) -> str:
    if path in (INFILL, PLAIN):
        return str(reply["content"])
    choice = reply["choices"][0]
    assert choice["finish_reason"] == "stop"
    return str(choice["message"]["content"] if path == CHAT else choice["text"])


@pytest.mark.parametrize("path", NEEDED)
@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        (in_json({"name": "x", "schema": BOOLEAN, "strict": True}), {"true", "false"}),
        ({"response_format": {"type": "json_schema", "schema": BOOLEAN}}, {"true", "false"}),
        ({"response_format": {"type": "json_object", "schema": BOOLEAN}}, {"true", "false"}),
        ({"json_schema": {"type": "null"}}, {"null"}),
        ({"json_schema": "{\"type\": \"null\"}"}, {"null"}),
        ({"json_schema": {"const": True}, "grammar": "", "response_format": {"type": "text"}}, {"true"}),
        ({"grammar": RHYME, "json_schema": None}, {"the cat sat.", "the hat sat."}),
    ],
)  # fmt: skip
def test_the_answer_has_the_form_that_was_asked_for(
    server: Served, path: str, asked: dict[str, Any], answers: set[str]
) -> None:
    for temperature in (0, 1.5):
        assert said(path, server.post(path, **NEEDED[path], **asked, temperature=temperature)) in answers


def test_a_stream_has_the_form_too(server: Served) -> None:
    *chunks, done = server.events(CHAT, **NEEDED[CHAT], grammar=RHYME, temperature=0)
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert done == "[DONE]"
    assert text in {"the cat sat.", "the hat sat."}
    assert text == said(CHAT, server.post(CHAT, **NEEDED[CHAT], grammar=RHYME, temperature=0))


def test_what_is_cut_says_so(server: Served) -> None:
    choice = server.post(CHAT, **NEEDED[CHAT], grammar=RHYME, max_tokens=5)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) in {("the c", "length"), ("the h", "length")}


@pytest.mark.parametrize("path", NEEDED)
@pytest.mark.parametrize(
    ("asked", "param", "words"),
    [
        ({"response_format": {"type": "json_schema"}}, "response_format.schema", "is required"),
        (in_json({}), "response_format.json_schema.schema", "required"),
        (in_json({"schema": {"not": {}}, "strict": True}), "response_format", "not"),
        (in_json({"schema": {"type": "objct"}}), "response_format", "objct"),
        (in_json({"schema": BOOLEAN, "strict": 5}), "response_format.json_schema.strict", "true or false"),
        ({"json_schema": {"not": {}}}, "json_schema", "not"),
        (in_json({"schema": [1]}), "response_format", "JSON object"),
        ({"response_format": {"type": "regex"}}, "response_format.type", "json_schema"),
        ({"response_format": "json"}, "response_format", "object"),
        ({"json_schema": {"type": "objct"}}, "json_schema", "objct"),
        ({"json_schema": [1]}, "json_schema", "can't be used: A schema is a JSON object."),
        ({"json_schema": {"enum": ["\ud800"]}}, "json_schema", "serializable"),
        ({"grammar": "root ::= other"}, "grammar", "other"),
        ({"grammar": 5}, "grammar", "string"),
        ({"grammar": RHYME, "json_schema": BOOLEAN}, "grammar", "json_schema"),
    ],
)  # fmt: skip
def test_what_is_no_form_is_refused_by_its_name(
    server: Served, path: str, asked: dict[str, Any], param: str, words: str
) -> None:
    status, error = server.refused(path, **NEEDED[path], **asked)
    assert (status, error["param"]) == (400, param)
    assert words in error["message"]


@pytest.mark.parametrize("path", NEEDED)
def test_a_keyword_that_can_not_be_enforced_is_left_out_with_a_warning_unless_strict(server: Served, path: str) -> None:
    about = {"name": "x", "schema": {"enum": [True, False], "not": {"const": 1}}}
    for more in ({}, {"strict": False}):
        reply = server.post(path, **NEEDED[path], **in_json({**about, **more}))
        assert said(path, reply) in {"true", "false"}
        assert any("'response_format' has 'not'" in warning for warning in reply["warnings"])


def test_a_form_that_the_model_can_not_spell_is_an_error_and_not_the_end(server: Served) -> None:
    status, error = server.refused(CHAT, **NEEDED[CHAT], response_format={"type": "json_object"})
    assert (status, "model can't follow the grammar. Its vocabulary" in error["message"]) == (400, True)
    assert json.loads(said(CHAT, server.post(CHAT, **NEEDED[CHAT], json_schema=BOOLEAN))) in (True, False)


def test_a_schema_may_be_as_deep_as_people_write_them(server: Served) -> None:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(20):
        schema = {
            "anyOf": [{"type": "object", "properties": {"inner": schema}, "required": ["inner"]}, {"type": "null"}]
        }
    assert said(CHAT, server.post(CHAT, **NEEDED[CHAT], json_schema=schema)) == "null"
