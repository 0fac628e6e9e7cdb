"""Answers that may call: what may come in them, and what was said and called, in whatever pieces it comes."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from byte_vocab import MARKS, ByteVocab
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tool_templates import ARGUMENTS, FAMILIES, Family

from models.errors import UsageError
from models.forms.grammar import Grammar
from models.forms.grammar_state import GrammarState
from models.forms.preface import Preface
from models.forms.tool_division import Calls
from models.forms.tool_grammar import arguments_schema, check_tool, tool_grammar
from models.text.thoughts import Thoughts
from models.text.tool_calls import TOOL_MARKS, CallFormat, Tool

TOKENS = ByteVocab((*MARKS, *TOOL_MARKS, "<|start|>", "<|end|>", "<|constrain|>"))
SPELLED = ByteVocab(("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>"))
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
CASES = [(family, vocab) for family in FAMILIES for vocab in ("tokens", "spelled")]
each_family = pytest.mark.parametrize(("family", "vocab"), CASES, ids=[" ".join(case) for case in CASES], indirect=True)


def tool(name: str, parameters: object = None) -> Tool:
    return Tool(name, {}, arguments_schema({"properties": {}} if parameters is None else parameters))


TOOLS = [tool("weather", WEATHER), tool("time")]


@pytest.fixture
def family(request: pytest.FixtureRequest) -> Family:
    return FAMILIES[request.param]


@pytest.fixture
def vocab(request: pytest.FixtureRequest) -> ByteVocab:
    return TOKENS if request.param == "tokens" else SPELLED


def form_of(family: Family, vocab: ByteVocab = TOKENS) -> CallFormat:
    form = CallFormat.of(family.template, vocab)
    assert form is not None
    return form


class Judge:
    """Tells which answers a grammar lets pass."""

    def __init__(
        self,
        family: Family,
        vocab: ByteVocab,
        tools: list[Tool] = TOOLS,
        *,
        must: bool = False,
        several: bool = True,
        answer: Grammar | None = None,
    ) -> None:
        self._vocab = vocab
        form, rule = form_of(family, vocab), "" if answer is None else answer.rule or ""
        self._grammar = tool_grammar(form, tools, must_call=must, several=several, answer=rule)

    def __call__(self, text: str, preface: Preface | None = None) -> bool:
        state = GrammarState(self._vocab, self._grammar, 0, preface or Preface())
        tokens = self._vocab.tokenize(text)
        return state.fitting((*tokens, self._vocab.ends[0]), ()) == len(tokens) + 1


def said(family: Family, text: str) -> str:
    """Return what a model of the family says to say just this."""
    return f"<|channel|>final<|message|>{text}" if form_of(family).has_channels else text


# --- what may come ----------------------------------------------------------------------------------------------------


@each_family
def test_text_is_free_and_calls_fit(family: Family, vocab: ByteVocab) -> None:
    may, call = Judge(family, vocab), family.first + family.closes
    for text in ("Hi", "a < b [x] {y\n", "<tool", " {"):
        assert may(said(family, text))
    assert may(call)
    assert may(family.text + call)
    assert not may(call + "x")
    assert not may(family.first[:-1])
    assert not may(call.replace("weather", "whether"))
    assert not may(call.replace("2", "two"))
    assert not may(call.replace("days", "nights"))
    if family.second is not None:
        assert may(family.first + family.second + family.closes)


@each_family
def test_who_has_to_call_says_nothing_else(family: Family, vocab: ByteVocab) -> None:
    must, call = Judge(family, vocab, must=True), family.first + family.closes
    assert must(call)
    assert not must("")
    assert not must(said(family, "Hi"))
    if not form_of(family).has_channels:
        assert not must(f"Let me look.\n{call}")


@each_family
def test_none_is_called_where_none_may_or_only_one(family: Family, vocab: ByteVocab) -> None:
    call = family.first + family.closes
    for never in (Judge(family, vocab, []), Judge(family, vocab, [TOOLS[1]])):
        assert never(said(family, "Hi"))
        assert not never(call)
        assert not never(family.text + call)
    if family.second is not None:
        once = Judge(family, vocab, several=False)
        assert once(call)
        assert not once(family.first + family.second + family.closes)


ANSWER = Grammar.of_schema({"type": "object", "properties": {"say": {"type": "string"}}, "required": ["say"]})
OTHERS = [(family, vocab) for family, vocab in CASES if family != "llama"]
not_bare = pytest.mark.parametrize(("family", "vocab"), OTHERS, ids=[" ".join(case) for case in OTHERS], indirect=True)


@not_bare
def test_what_is_said_may_have_a_form_and_then_nothing_is_said_before_a_call(family: Family, vocab: ByteVocab) -> None:
    may, call = Judge(family, vocab, answer=ANSWER), family.first + family.closes
    assert may(said(family, '{"say": "Hi"}'))
    assert may(said(family, '{"say": "a < b [x]"}'))
    assert may(call)
    for other in ("", "Hi", '{"say": 1}', '{"name": "weather", "arguments": {}}', '{"say": "Hi"} Hi'):
        assert not may(said(family, other))
    assert not may(call + "x")
    assert not may(call.replace("2", "two"))
    if not form_of(family, vocab).has_channels:
        assert not may(family.text + call)
        assert not may('{"say": "Hi"}' + call)
    must = Judge(family, vocab, must=True, answer=ANSWER)
    assert must(call)
    assert not must(said(family, '{"say": "Hi"}'))
    assert Judge(family, vocab, [], answer=ANSWER)(said(family, '{"say": "Hi"}'))


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "llama"], indirect=True)
def test_an_answer_with_a_form_is_one_whatever_its_texts_hold(family: Family, size: int) -> None:
    form = replace(form_of(family), comes_first=True, may_be_loose=False)
    # What is spelled as the mark of a channel is one.
    mark = "" if form.has_channels else form.opens
    for text in (f'{{"say": "{mark}"}}', '{"name": "weather", "arguments": {}}', "[1]"):
        assert divided(form, said(family, text), size) == (text, [], False)
    call = family.first + family.closes
    assert divided(form, call, size) == ("", [("weather", ARGUMENTS)], True)
    if not form.has_channels:
        assert divided(form, "\n\n" + call, size) == ("", [("weather", ARGUMENTS)], True)


def test_only_a_schema_is_the_rule_of_an_answer() -> None:
    assert Grammar.of_text('root ::= "yes"').rule is None
    assert Grammar.of_text("start: /yes/").rule is None
    assert ANSWER.rule is not None


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("gpt-oss", "llama")], indirect=True)
def test_what_opens_a_call_does_however_it_is_spelled(family: Family) -> None:
    """Small models spell marks in other tokens than their own."""
    form = form_of(family)
    state = GrammarState(TOKENS, tool_grammar(form, TOOLS, must_call=False, several=True), 0)
    opened = [*b"So: ", *form.opens.encode()]
    rest = TOKENS.tokenize((family.first + family.closes).removeprefix(form.opens))
    assert state.fitting((*opened, *rest, TOKENS.ends[0]), ()) == len(opened) + len(rest) + 1
    assert state.fitting((*opened, *b"?"), ()) == len(opened)


@each_family
def test_what_leaves_no_choice_is_forced(family: Family, vocab: ByteVocab) -> None:
    form = form_of(family, vocab)
    grammar = tool_grammar(form, [TOOLS[0]], must_call=True, several=False)
    state, call = GrammarState(vocab, grammar, 0), vocab.tokenize(family.first + family.closes)
    before = [] if not (form.is_bare or form.has_channels) else call[:3]
    assert state.forced(before)[:8] == call[len(before) :][:8]
    assert not state.is_complete(call[:-1])
    assert state.is_complete(call)


@each_family
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(visits=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=8))
def test_going_back_and_forth_leaves_no_trace(family: Family, vocab: ByteVocab, visits: list[tuple[int, int]]) -> None:
    grammar = tool_grammar(form_of(family, vocab), TOOLS, must_call=False, several=True)
    whole = vocab.tokenize(family.text + family.first + (family.second or "") + family.closes)
    known = GrammarState(vocab, grammar, 0)
    for length, more in visits:
        said = whole[:length]
        said = [*said, more] if known.allows(more, [], said) else said
        fresh = GrammarState(vocab, grammar, 0)
        assert np.array_equal(known.allowed([], said), fresh.allowed([], said))
        assert known.forced([], said) == fresh.forced([], said)
        assert known.is_complete(said) == fresh.is_complete(said)


def test_an_answer_that_begins_as_a_bare_call_is_one() -> None:
    may = Judge(FAMILIES["llama"], TOKENS)
    assert not may('{"name": "Bob"}')
    assert not may('{"')
    assert may('{ "name": "Bob"}')
    assert may("<|python_tag|>" + FAMILIES["llama"].first)
    assert may("So: <|python_tag|>" + FAMILIES["llama"].first)


@pytest.mark.parametrize(
    "header",
    ["functions.time", "functions.time json", "functions.time <|constrain|>json", "functions.time<|constrain|>json"],
)
def test_channels_hold_thoughts_then_an_answer_or_a_call(header: str) -> None:
    may, must = (Judge(FAMILIES["gpt-oss"], TOKENS, must=must) for must in (False, True))
    thought = "<|channel|>analysis<|message|>So<|end|><|start|>assistant"
    call = f"<|channel|>commentary to={header}<|message|>{{}}"
    for answer in (
        call,
        thought + call,
        f"{thought}<|channel|>commentary<|message|>I call.<|end|><|start|>assistant{call}",
    ):
        assert may(answer)
        assert must(answer)
    assert may(f"{thought}<|channel|>final <|constrain|>json<|message|>{{}}")
    assert not may(thought)
    assert not may("Hi")
    assert not must(f"{thought}<|channel|>final<|message|>Hi")


def test_thoughts_before_a_call_are_free() -> None:
    must = Judge(FAMILIES["hermes"], TOKENS, must=True)
    thought, call = "<think>\n<tool_call>?\n</think>\n\n", FAMILIES["hermes"].first
    assert must(thought + call, Preface(may_think=True))
    assert not must(thought + call)
    assert must(call, Preface(may_think=True))


# --- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["hermes", "qwen-coder"], indirect=True)
@pytest.mark.parametrize(
    ("parameters", "cause"),
    [
        ({"type": "string"}, "object"),
        ([], "JSON schema"),
        ("{}", "JSON schema"),
        ({"properties": 5}, "properties"),
        ({"properties": {"a": {"type": "strin"}}}, "strin"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "$defs"),
        ({"properties": {"a": False}, "required": ["a"]}, ""),
    ],
)
def test_what_can_not_be_kept_is_refused(family: Family, parameters: object, cause: str) -> None:
    with pytest.raises(UsageError, match="can't be used") as refused:
        check_tool(form_of(family), tool("f", parameters))
    assert cause in refused.value.cause
    assert "%json" not in refused.value.cause, "that is no word of the client's"


@pytest.mark.parametrize(
    ("parameters", "cause"),
    [
        ({"properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}, "anyOf"),
        ({"properties": {"a>": {}}}, "a>"),
        ({"properties": {"": {}}}, "''"),
    ],
)
def test_arguments_that_stand_each_by_itself_have_simple_names_and_rules(parameters: object, cause: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_tool(form_of(FAMILIES["qwen-coder"]), tool("f", parameters))
    assert cause in refused.value.cause
    check_tool(form_of(FAMILIES["hermes"]), tool("f", parameters))


SHARED = {
    "properties": {
        "who": {"$ref": "#/$defs/person"},
        "unit": {"enum": ["C", "F"], "type": "string"},
        "code": {"type": "string", "pattern": "^[0-9]+$"},
        "note": {"type": ["string", "null"]},
    },
    "required": ["who"],
    "$defs": {"person": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}


@pytest.mark.parametrize(
    ("values", "fits"),
    [
        ({"who": '{"name": "A"}'}, True),
        ({"who": '{"name": "A"}', "unit": "F"}, True),
        ({"who": '{"name": "A"}', "unit": "K"}, False),
        ({"who": '{"name": "A"}', "code": '"12"', "note": "null"}, True),
        ({"who": '{"name": "A"}', "code": "12"}, False),
        ({"who": '{"nick": "A"}'}, False),
        ({"unit": "F"}, False),
    ],
)
@pytest.mark.parametrize("family", ["qwen-coder", "glm", "seed"], indirect=True)
def test_each_argument_fits_its_own_schema(family: Family, values: dict[str, str], fits: bool) -> None:
    form, tools = form_of(family), [tool("f", SHARED)]
    check_tool(form, tools[0])
    assert form.around is not None
    before, between, after = form.around
    written = "".join(f"{before}{key}{between}{value}{after}" for key, value in values.items())
    answer = f"{form.opens}{form.before}f{form.between}{written}{form.after}"
    assert Judge(family, TOKENS, tools)(answer) is fits
    if fits:
        (_, arguments), *_ = divided(form, answer, tools=tools)[1]
        as_json = {key: value if key == "unit" else json.loads(value) for key, value in values.items()}
        assert json.loads(arguments) == as_json


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('{"city": "A", "days": 1}', True),
        ('{"city":"A"}', False),
        ('{ "city": "A"}', False),
        ('{"city": "A", "zip": 1}', False),
        ('{"days": 1}', False),
    ],
)
def test_arguments_are_written_as_templates_write_them(text: str, fits: bool) -> None:
    family = FAMILIES["hermes"]
    assert Judge(family, TOKENS)(family.first.replace(ARGUMENTS, text)) is fits


# --- what was said and what was called --------------------------------------------------------------------------------


def divided(
    form: CallFormat, text: str, size: int = 1 << 20, tools: list[Tool] = TOOLS
) -> tuple[str, list[tuple[str, str]], bool]:
    """Return what is said in an answer that comes in pieces of a size, its calls, and whether they are whole."""
    thoughts, calls = Thoughts(keeps_calls=True), Calls(form, tools)
    told, found = "", list[list[str]]()
    pieces = [text[place : place + size] for place in range(0, len(text), size)]
    for piece, last in [*((piece, False) for piece in pieces), ("", True)]:
        spoken = calls.feed(thoughts.feed(piece, last=last).answer, last=last)
        told += spoken.text
        for call in spoken.calls:
            if call.name:
                assert call.index == len(found)
                found.append([call.name, ""])
            found[call.index][1] += call.arguments
    return told, [(name, arguments) for name, arguments in found], calls.are_whole


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 1 << 20])
@pytest.mark.parametrize("family", FAMILIES, indirect=True)
def test_an_answer_is_divided_the_same_in_any_pieces(family: Family, size: int) -> None:
    form = form_of(family)
    text = "" if form.has_channels else family.text.strip()
    called = [("weather", ARGUMENTS)]
    assert divided(form, family.text + family.first + family.closes, size) == (text, called, True)
    for free in ("Hi", " a <tool", "{x} \n\n", "\n"):
        assert divided(form, said(family, free), size) == (free, [], False)
    if family.second is not None:
        both = family.first + family.second + family.closes
        assert divided(form, both, size) == ("", [*called, ("time", "{}")], True)


@pytest.mark.parametrize("family", FAMILIES, indirect=True)
def test_an_answer_may_be_cut_anywhere(family: Family) -> None:
    form, whole = form_of(family), family.text + family.first + (family.second or "") + family.closes
    counts = []
    for place in range(len(whole) + 1):
        told, called, are_whole = divided(form, whole[:place], 5)
        assert form.opens not in told
        assert (family.text + form.opens).startswith(told) or form.is_bare or form.has_channels
        assert [name for name, _ in called] == ["weather", "time"][: len(called)]
        if called:
            assert ARGUMENTS.startswith(called[0][1])
        if are_whole:
            assert all(json.loads(arguments) in (json.loads(ARGUMENTS), {}) for _, arguments in called)
        counts.append(len(called))
    assert counts == sorted(counts)
    assert counts[-1] == (1 if family.second is None else 2)


@pytest.mark.parametrize("text", ['say "hi" \\ {[', "a\nb\té", "</parameter>", ""])
def test_texts_become_json(text: str) -> None:
    family = FAMILIES["qwen-coder"]
    answer = family.first.replace('Rom "é"', text)
    assert Judge(family, TOKENS)(answer)
    for size in (1, 4, 1000):
        _, ((_, arguments),), _ = divided(form_of(family), answer, size)
        assert json.loads(arguments) == {"city": text, "days": 2}


@pytest.mark.parametrize("value", ['}{][\\"', 'a\\\\"'.replace('"', ""), "\\u00e9", "\n"])
def test_an_object_ends_where_it_does(value: str) -> None:
    family, spelled = FAMILIES["hermes"], value.replace("\n", "\\n")
    arguments: Any = f'{{"city": "{spelled}"}}'
    for size in (1, 2, 1000):
        answer = family.first.replace(ARGUMENTS, arguments)
        assert divided(form_of(family), answer + (family.second or ""), size)[1] == [
            ("weather", arguments),
            ("time", "{}"),
        ]


def test_channels_without_tools_are_thoughts_as_before() -> None:
    parts = Thoughts().feed(FAMILIES["gpt-oss"].first, last=True)
    assert (parts.thoughts, parts.answer) == (ARGUMENTS, "")
