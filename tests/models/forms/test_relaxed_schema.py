"""Tests of tools whose schema has keywords that can't be enforced: relaxed by name, and nothing else with them."""

from typing import Any

import pytest
from byte_vocab import ByteVocab
from tool_templates import FAMILIES

from models.errors import UsageError
from models.forms.tool_grammar import arguments_schema, usable_tool
from models.text.tool_calls import CallFormat, Tool

TEXT = {"type": "string"}


def usable(parameters: dict[str, Any], family: str = "hermes") -> tuple[dict[str, Any], list[str]]:
    form = CallFormat.of(FAMILIES[family].template, ByteVocab())
    assert form is not None
    about = {"type": "function", "function": {"name": "f", "description": "", "parameters": parameters}}
    tool, names = usable_tool(form, Tool("f", about, arguments_schema(parameters)))
    assert tool.about == about, "the model reads all of it"
    return dict(tool.schema), names


@pytest.mark.parametrize("family", ["hermes", "qwen-coder"])
@pytest.mark.parametrize(
    ("odd", "loose", "names"),
    [
        ({"type": "array", "items": TEXT, "uniqueItems": True}, {"type": "array", "items": TEXT}, ["uniqueItems"]),
        ({"type": "string", "pattern": "^(?=.*a)b"}, TEXT, ["pattern"]),
        ({"type": "string", "pattern": r"(a)\1"}, TEXT, ["pattern"]),
        ({"not": {"type": "null"}, **TEXT}, TEXT, ["not"]),
        ({**TEXT, "format": "colour"}, TEXT, ["format"]),
        ({"if": TEXT, "then": {"minLength": 2}, "else": {}, **TEXT}, TEXT, ["else", "if", "then"]),
        ({"type": "array", "contains": TEXT}, {"type": "array"}, ["contains"]),
        ({"oneOf": [TEXT, {**TEXT, "maxLength": 3}]}, {"anyOf": [TEXT, {**TEXT, "maxLength": 3}]}, ["oneOf"]),
        ({"type": "array", "uniqueItems": True, "items": {"not": {}, "format": "x"}},
         {"type": "array", "items": {}}, ["not", "uniqueItems", "format"]),
        ({**TEXT, "pattern": "a+"}, {**TEXT, "pattern": "a+"}, []),
        ({"enum": ["uniqueItems", "not"]}, {"enum": ["uniqueItems", "not"]}, []),
    ],
)  # fmt: skip
def test_a_keyword_that_can_not_be_enforced_is_left_out_and_named(
    odd: dict[str, Any], loose: dict[str, Any], names: list[str], family: str
) -> None:
    schema, found = usable({"type": "object", "properties": {"not": odd, "b": {"type": "integer"}}}, family)
    assert schema["properties"] == {"not": loose, "b": {"type": "integer"}}, "a property may be called as a keyword"
    assert sorted(found) == sorted(names)


def test_what_holds_between_arguments_is_left_out_where_each_stands_by_itself() -> None:
    parameters = {"properties": {"a": {}, "b": {"anyOf": [TEXT]}}, "anyOf": [{"required": ["a"]}]}
    schema, names = usable(parameters, "qwen-coder")
    assert names == ["anyOf"]
    assert schema["properties"]["b"] == {"anyOf": [TEXT]}
    assert usable(parameters)[1] == []


@pytest.mark.parametrize(
    "wrong",
    [{"type": "strin"}, {"$ref": "#/$defs/none"}, {"minLength": -1, **TEXT}, {"type": "integer", "multipleOf": 0}],
)
@pytest.mark.parametrize("odd", [{}, {"uniqueItems": True}])
def test_what_is_no_schema_is_still_refused(wrong: dict[str, Any], odd: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="can't be used"):
        usable({"type": "object", "properties": {"a": {**wrong, **odd}}})
