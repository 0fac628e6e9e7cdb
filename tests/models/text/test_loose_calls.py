"""Calls that small models write without their marks: they are calls where an answer begins with them, else text."""

import json

import pytest
from byte_vocab import ByteVocab
from tool_templates import FAMILIES

from models.forms.grammar_state import GrammarState
from models.forms.tool_division import Calls
from models.forms.tool_grammar import arguments_schema, tool_grammar
from models.text.tool_calls import CallFormat, Tool

VOCAB = ByteVocab()
FORM = CallFormat.of(FAMILIES["hermes"].template, VOCAB)
CITY = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [Tool("a/weather", {}, arguments_schema(CITY)), Tool("time", {}, arguments_schema({"properties": {}}))]
CALLS = [
    '{"name": "a/weather", "arguments": {"city": "Rom"}}',
    '{{"name": "a/weather", "arguments": {"city": "Rom"}}}',
    '```json\n{\n  "name": "a/weather",\n  "arguments": {"city": "Rom"}\n}\n```',
    '```\n{"name":"a/weather","arguments":{"city": "Rom"}}\n```',
    '{\r\n"name": "a/weather",\r\n"arguments": {"city": "Rom"}\r\n}',
]
TEXTS = [
    '{  \n\n "name": "a/weather", "arguments": 5}',
    '{"name": "Bob", "arguments": []}',
    'So: {"name": "a/weather", "arguments": 5}',
    '```json\n{"nam": "a/weather"}\n```',
    "```python\nprint()\n```",
    '{"name": "a/weather',
    "```",
    "{",
]


def passes(text: str, tools: list[Tool] = TOOLS, *, must: bool = False) -> bool:
    assert FORM is not None
    state = GrammarState(VOCAB, tool_grammar(FORM, tools, must_call=must, several=True), 0)
    tokens = VOCAB.tokenize(text)
    return state.fitting((*tokens, VOCAB.ends[0]), ()) == len(tokens) + 1


def divided(text: str, size: int, tools: list[Tool] = TOOLS) -> tuple[str, str, str, bool]:
    """Return what an answer in pieces of a size says, what it calls, with which arguments, and whether it is whole."""
    assert FORM is not None
    calls = Calls(FORM, tools)
    pieces = [text[place : place + size] for place in range(0, len(text), size)]
    spoken = [*(calls.feed(piece) for piece in pieces), calls.feed("", last=True)]
    called = [piece for one in spoken for piece in one.calls]
    assert {piece.index for piece in called} <= {0}
    names, arguments = ("".join(getattr(piece, what) for piece in called) for what in ("name", "arguments"))
    return "".join(one.text for one in spoken), names, arguments, calls.are_whole


@pytest.mark.parametrize("call", CALLS)
def test_an_answer_that_begins_with_the_json_of_a_call_is_one(call: str) -> None:
    assert passes(call)
    assert not passes(call.replace("city", "town"))
    assert not passes(call.replace('"Rom"', "5"))
    assert not passes(call, must=True), "a required call has to be well formed"
    assert not passes(f"{call}.")
    for size in (1, 3, 8, 1000):
        said, name, arguments, is_whole = divided(call, size)
        assert (said, name, is_whole) == ("", "a/weather", True)
        assert json.loads(arguments) == {"city": "Rom"}


@pytest.mark.parametrize("call", CALLS)
def test_it_is_none_where_there_is_no_such_function(call: str) -> None:
    for tools in ([], TOOLS[1:]):
        assert passes(call, tools)
        assert divided(call, 4, tools) == (call, "", "", False)


@pytest.mark.parametrize("text", TEXTS)
def test_any_other_beginning_is_text(text: str) -> None:
    assert passes(text)
    for size in (1, 3, 1000):
        assert divided(text, size) == (text, "", "", False)


def test_text_is_not_held_back_longer_than_it_may_be_a_call() -> None:
    assert FORM is not None
    calls = Calls(FORM, TOOLS)
    assert [calls.feed(piece).text for piece in ("```", "py", "thon")] == ["", "```py", "thon"]


def test_marks_may_follow_what_begins_otherwise() -> None:
    call = FAMILIES["hermes"].first.replace("weather", "time")
    start, end = call.index('{"city'), call.rindex("}\n")
    call = f"{call[:start]}{{}}{call[end:]}"
    assert passes(f"```\nx\n```\n{call}")
    assert divided(f"```\nx\n```\n{call}", 5) == ("```\nx\n```", "time", "{}", True)
