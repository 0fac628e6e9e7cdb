"""What an answer has to look like: a JSON schema, or a grammar in llama.cpp's GBNF or in Lark's form.

llguidance compiles and follows them; what it does not know of a schema is refused, never left out silently.
"""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.errors import UsageError

_BLANKS = r"[ \t]{1,8}|\r?\n[ \t]{0,64}"
"""What may stand between two tokens of JSON, once: without a limit, small models write blanks for ever."""
_PARTS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keys of a schema whose values are schemas by name."""
_LONGEST_CAUSE = 600
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|.)", re.DOTALL)
_ASCII = 128


@dataclass(frozen=True, slots=True)
class Grammar:
    """The form of an answer, checked: every text that comes of it fits."""

    source: str
    """As llguidance reads it."""

    @classmethod
    def of_schema(cls, schema: object) -> "Grammar":
        """Return what lets only JSON pass that a schema, as parsed JSON or its text, allows; raises UsageError.

        As in llama.cpp an object whose properties are listed has no others, unless it says so with
        `additionalProperties`.
        """
        from llguidance import LLMatcher

        parsed = _parsed(schema) if isinstance(schema, str) else schema
        if not isinstance(parsed, dict):
            raise _bad_schema("A schema is a JSON object.")
        closed = parsed if _mentions(parsed, "allOf") else _closed(parsed)
        # Blanks that a schema names itself, in `x-guidance`, come after these.
        source = LLMatcher.grammar_from_json_schema(closed, {"whitespace_pattern": _BLANKS})
        if error := LLMatcher.validate_grammar(source):
            raise _bad_schema(error)
        return cls(source)

    @classmethod
    def of_text(cls, text: str) -> "Grammar":
        """Return what lets only texts pass that a grammar makes, from `root` in GBNF or `start` in Lark's form.

        Raises UsageError.
        """
        from llguidance import LLMatcher, grammar_from

        try:
            source = grammar_from("gbnf", _ESCAPE.sub(_spelled, text) if "::=" in text else text)
            error = LLMatcher.validate_grammar(source)
        except (ValueError, RecursionError) as refused:
            error = str(refused).removeprefix("Failed to convert the grammar from GBNF to Lark: ")
        if error:
            raise UsageError(
                "The grammar can't be used.",
                cause=error[:_LONGEST_CAUSE],
                hint="It has to be GBNF, with a rule root, or Lark's form, with a rule start.",
            )
        return cls(source)


ANY_JSON = {"type": "object"}
"""The schema of any JSON object."""


def _spelled(escape: re.Match[str]) -> str:
    """Return an escape as llguidance reads it: of a character's number it would drop the leading zeros."""
    if (digits := escape[1] or escape[2]) is None or (code := int(digits, 16)) > sys.maxunicode:
        return escape[0]
    return f"\\x{code:02x}" if code < _ASCII else chr(code)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad_schema(f"It is no JSON: {error}.") from error


def _bad_schema(cause: str) -> UsageError:
    hint = "Leave out or replace what is named there; the answer could otherwise break it."
    return UsageError("The JSON schema can't be used.", cause=cause[:_LONGEST_CAUSE], hint=hint)


def _mentions(value: object, key: str) -> bool:
    if isinstance(value, dict):
        return key in value or any(_mentions(inner, key) for inner in value.values())
    return isinstance(value, list) and any(_mentions(inner, key) for inner in value)


def _closed(schema: Any) -> Any:
    """Return a schema whose objects have no properties but those that are listed, where it leaves that open."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {key: _closed_part(key, value) for key, value in schema.items()}
    if isinstance(closed.get("properties"), Mapping) and "patternProperties" not in closed:
        closed.setdefault("additionalProperties", False)
    return closed


def _closed_part(key: str, value: Any) -> Any:
    if key in _PARTS and isinstance(value, Mapping):
        return {name: _closed(each) for name, each in value.items()}
    # Values, and not schemas, whatever they look like.
    return value if key in ("enum", "const", "default", "examples", "required") else _closed(value)
