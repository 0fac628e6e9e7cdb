"""The form of an answer: what is no schema and no grammar is refused in words, and what passes fits."""

import json
from typing import Any

import pytest
from byte_vocab import ByteVocab

from models.errors import UsageError
from models.forms.grammar import Grammar
from models.forms.grammar_state import GrammarState

VOCAB = ByteVocab()


def takes(grammar: Grammar, text: str) -> bool:
    """Return whether a grammar makes just this text."""
    state, tokens = GrammarState(VOCAB, grammar, 0), VOCAB.tokenize(text, special=False)
    return state.fitting((*tokens, VOCAB.ends[0]), ()) == len(tokens) + 1


@pytest.mark.parametrize(
    ("schema", "cause"),
    [
        ("{", "It is no JSON"),
        ("[" * 100_000, "It is no JSON"),
        ('{"enum": ["\\ud800"]}', "\\ud800"),
        ("[]", "A schema is a JSON object"),
        (None, "A schema is a JSON object"),
        (True, "A schema is a JSON object"),
        ({"type": "objct"}, "objct"),
        ({"type": "string", "pattern": "[a"}, "unclosed"),
        ({"$ref": "#/nowhere"}, "nowhere"),
        ({"$ref": "https://example.com/x.json"}, "example.com"),
        ({"not": {"type": "string"}}, "not"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "object", "propertyNames": {"pattern": "^a"}}, "propertyNames"),
        ({"type": "string", "format": "colour"}, "colour"),
        ({"allOf": [{"type": "string"}, {"type": "number"}]}, "Unsatisfiable"),
        ({"maximum": 10**30}, "10000000000"),
        ({"anyOf": [{"multipleOf": 9000}, {"items": [{"multipleOf": 10.01}]}]}, "10,000"),
        ({"anyOf": [{"$ref": "#/$defs/a"}] * 10_001, "$defs": {"a": {}}}, "$ref"),
    ],
)
def test_what_is_no_schema_or_can_not_be_kept_is_refused_with_the_cause(schema: object, cause: str) -> None:
    with pytest.raises(UsageError, match="JSON schema can't be used") as refused:
        Grammar.of_schema(schema)
    assert cause in refused.value.cause
    assert len(refused.value.cause) <= 600


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "root"),
        ("root ::= [a-z", "has no end"),
        ("root ::= other", "other"),
        ("other ::= \"a\"", "root"),
        ("garbage {{", "::="),
        ('begin: "a"', "start"),
        ("start: /a(?=b)/", "look-ahead"),
        ("root ::= x\n" * 10_001, "10,000 lines"),
        ("start: x\n" * 10_001, "10,000 lines"),
    ],
)  # fmt: skip
def test_what_is_no_grammar_is_refused_with_the_cause(text: str, cause: str) -> None:
    with pytest.raises(UsageError, match="grammar can't be used") as refused:
        Grammar.of_text(text)
    assert cause in refused.value.cause


def test_a_schema_that_is_nested_as_no_python_can_follow_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"items": schema}
    with pytest.raises(UsageError, match="JSON schema can't be used"):
        Grammar.of_schema(schema)


def test_rules_and_references_may_lead_to_each_other_by_the_thousand() -> None:
    # On the usual stack the first would be a crash.
    count = 9000
    defs = {
        f"d{place}": {"type": "array", "items": {"$ref": f"#/$defs/d{(place + 1) % count}"}} for place in range(count)
    }
    assert takes(Grammar.of_schema({"$defs": defs, "$ref": "#/$defs/d0"}), "[[],[]]")
    rules = "\n".join(f'r{place}: "x" r{place + 1} | "y"' for place in range(count))
    assert takes(Grammar.of_text(f'start: r0\n{rules}\nr{count}: "z"\n'), "xxy")


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('{"name": "é", "age": 12}', True),
        ('{"name":"A"}', True),
        ('{\n  "name": "A",\n  "age": 7\n}', True),
        ('{"age": 12}', False),
        ('{"name": "A", "age": 151}', False),
        ('{"name": "A", "nick": "B"}', False),
        ('{"name": "A"', False),
        ('{"name": "A"} ', False),
        ('{"name":\n\n\n"A"}', False),
        ('{"name":' + " " * 9 + '"A"}', False),
        ("[]", False),
    ],
)
@pytest.mark.parametrize("given", [PERSON, json.dumps(PERSON)])
def test_json_fits_its_schema_and_has_few_blanks(given: object, text: str, fits: bool) -> None:
    assert takes(Grammar.of_schema(given), text) is fits


@pytest.mark.parametrize(
    ("schema", "text", "fits"),
    [
        ({**PERSON, "additionalProperties": True}, '{"name": "A", "nick": 1}', True),
        ({**PERSON, "patternProperties": {"^x": {"type": "integer"}}}, '{"name": "A", "x": 1}', True),
        ({"type": "object"}, '{"any": [1]}', True),
        ({"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {}}, '{"any": [1]}', True),
        ({"type": "array", "items": PERSON}, '[{"name": "A", "nick": 1}]', False),
        ({"properties": {"properties": {"type": "object"}}}, '{"properties": {"any": 1}}', True),
        ({"const": {"properties": {}}}, '{"properties":{}}', True),
        ({"$defs": {"p": PERSON}, "$ref": "#/$defs/p"}, '{"name": "A", "nick": 1}', False),
        ({"allOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]}, '{"a":1,"b":2}', True),
        ({"anyOf": [{"type": "null"}, PERSON]}, '{"nick": 1}', False),
        ({}, "12", True),
        ({"type": "object", "x-guidance": {"whitespace_flexible": False}}, '{"a":1}', True),
    ],
)
def test_an_object_has_the_properties_that_are_listed_unless_it_says_otherwise(
    schema: dict[str, Any], text: str, fits: bool
) -> None:
    before = json.dumps(schema)
    assert takes(Grammar.of_schema(schema), text) is fits
    assert json.dumps(schema) == before, "it is the caller's own"


@pytest.mark.parametrize("grammar", ['root ::= "yes" | "no" [a-c]*', 'start: "yes" | /no[a-c]*/'])
@pytest.mark.parametrize(
    ("text", "fits"), [("yes", True), ("noabc", True), ("no", True), ("yesa", False), ("nod", False)]
)
def test_a_grammar_can_be_written_in_either_form(grammar: str, text: str, fits: bool) -> None:
    assert takes(Grammar.of_text(grammar), text) is fits


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        (r'root ::= "\u00e9"', "é"),
        (r"root ::= [\u00e0-\u00ff]+ [\u005d]", "éà]"),
        (r'root ::= "\U0001F600" "\u0022"', '\N{GRINNING FACE}"'),
        (r'root ::= "\\u00e9"', r"\u00e9"),
        (r'root ::= [^"\\\x7F\x00-\x1F]+ "\n"', "aé\n"),
        ('root ::= sum\nsum ::= term ("+" term)*\nterm ::= [0-9]+ | "(" sum ")" # either', "(1+2)+3"),
        ("root ::= x{2,3} y?\nx ::= [0-9]\ny ::= [^\\n]", "123-"),
    ],
)
def test_what_llama_cpp_reads_of_gbnf_is_read(grammar: str, text: str) -> None:
    assert takes(Grammar.of_text(grammar), text)
    assert not takes(Grammar.of_text(grammar), text + "\n")
