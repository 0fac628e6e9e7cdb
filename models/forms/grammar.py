"""Form of an answer: a JSON schema, or a grammar in llama.cpp's GBNF or in llguidance's Lark notation.

llguidance compiles and follows them; what it does not know of a schema is refused, never left out silently.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Any

from models.errors import UsageError
from models.forms import form_checker
from models.forms.form_limits import LIMITS, LONGER, SCHEMA, TEXT
from models.forms.gbnf import read_gbnf
from models.forms.gbnf_lark import LarkGrammar, lark_of
from models.forms.gbnf_rules import Token
from models.forms.schema_walk import has_more_values, rewritten

BLANKS = r"[ \t]{1,8}|\r?\n[ \t]{0,64}"
"""Blanks between two tokens of JSON, once: without a limit, small models write blanks for ever."""
_ANY_NAMES = ("propertyNames", {"type": "string"})
"""A rule that Zod writes for every record, and that holds for all JSON."""
_LONGEST_CAUSE = 600
_MOST_RULES = 10_000
"""Rules of a grammar, or references of a schema, each of which may lead to the next: llguidance recurses into them."""
_MULTIPLES = 10_000
"""Largest number of states for multiples of a number; with a million, compilation would take a quarter of an hour."""
_SCHEMA_HINT = 'It has to be a JSON object, as in {"type": "boolean"}; {} lets any JSON pass.'
SMALLER = "Use a simpler one: fewer patterns, choices or properties, or shorter repetitions."
_LEAVE_OUT = "Leave out or replace what is named there; the answer could otherwise break it."
_GBNF = re.compile(r"^[ \t]*[a-zA-Z0-9-]+[ \t]*::=", re.MULTILINE)
_LARK = re.compile(r"^[ \t]*[a-z_][a-z_0-9.]*[ \t]*:(?!:)", re.MULTILINE)
"""Beginnings of rules in the two forms."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The form of an answer, checked: every text that comes of it fits."""

    source: str
    """As llguidance reads it."""
    has_thoughts: bool = False
    """True if its source covers the thoughts before the answer."""
    tokens: tuple[Token, ...] = ()
    """Tokens that `source` names by a mark, as their numbers are those of one vocabulary."""

    @classmethod
    def of_schema(cls, schema: object) -> "Grammar":
        """Return what lets only JSON pass that a schema, as parsed JSON or its text, allows; raises UsageError.

        As in llama.cpp an object whose properties are listed has no others, unless it says so with
        `additionalProperties`.
        """
        closed = closed_schema(schema)
        try:
            source, error, _ = form_checker.compiled(SCHEMA, json.dumps(closed))
        except form_checker.TooCostlyError as costly:
            raise _bad_schema(str(costly), hint=SMALLER) from costly
        except (ValueError, RecursionError) as refused:
            # Whole numbers that no other language has, and half of a surrogate pair, which no text can hold.
            raise _bad_schema(f"It can't be read: {refused}.") from refused
        if error:
            raise _bad_schema(f"pattern: {error}" if error.startswith("regex") else error)
        return cls(source)

    @property
    def rule(self) -> str | None:
        """Rule in Lark's form for JSON of this schema; None for a form without a schema."""
        schema = json.loads(self.source)["grammars"][0].get("json_schema") if self.source.startswith("{") else None
        return None if schema is None else f"%json {json.dumps(schema)}"

    @classmethod
    def of_text(cls, text: str) -> "Grammar":
        """Return what lets only texts pass that a grammar makes, from `root` in GBNF or `start` in Lark's form.

        Raises UsageError.
        """
        hint = "It has to be GBNF, with a rule root, or Lark's form, with a rule start."
        try:
            source, error, tokens = form_checker.compiled(TEXT, text)
        except form_checker.TooCostlyError as costly:
            error, hint = str(costly), SMALLER
        except (ValueError, RecursionError) as refused:
            error = str(refused)
        if error:
            raise UsageError("The grammar can't be used.", cause=error[:_LONGEST_CAUSE], hint=hint)
        return cls(source, tokens=tuple(Token(*each) for each in json.loads(tokens or "[]")))


ANY_JSON = {"type": "object"}
"""The schema of any JSON object."""


def compiled(kind: str, text: str) -> tuple[str, str, str]:
    """Return a form as llguidance reads it, what is wrong with it, and the tokens it names as JSON ("" for none).

    It runs in the process that may be ended. Raises UsageError and ValueError.
    """
    from llguidance import LLMatcher

    if kind == SCHEMA:
        return (*_compiled_schema(json.loads(text)), "")
    if kind != TEXT:
        return "", LLMatcher.validate_grammar(text), ""
    made, fault = _compiled_text(text)
    tokens = [(token.name, token.number, token.negated) for token in made.tokens]
    return made.source, fault, json.dumps(tokens) if tokens else ""


def _compiled_schema(schema: dict[str, Any]) -> tuple[str, str]:
    """Return a schema as llguidance reads it, and what is wrong with it, if anything; raises ValueError."""
    from llguidance import LLMatcher

    # Blanks that a schema names itself, in `x-guidance`, come after these.
    source = LLMatcher.grammar_from_json_schema(schema, {"whitespace_pattern": BLANKS})
    return source, LLMatcher.validate_grammar(source)


def _compiled_text(text: str) -> tuple[LarkGrammar, str]:
    """Do the same with a grammar."""
    from llguidance import LLMatcher

    if text.count("\n") > _MOST_RULES:
        return LarkGrammar("", ()), f"There may be {_MOST_RULES:,} lines."
    if not _LARK.search(text) or _GBNF.search(text):
        compiled = lark_of(read_gbnf(text))
        # llguidance speaks of what was written for it, and not of the person's text.
        return compiled, "It is too large to be followed." if LLMatcher.validate_grammar(compiled.source) else ""
    return LarkGrammar(text, ()), LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(text))


def _check_size(schema: object) -> None:
    """Refuse what would take long to walk through, or a deeper stack than there is; raises UsageError."""
    if has_more_values(schema, LIMITS.values):
        raise _bad_schema(f"It has more than {LIMITS.values:,} values.", hint=SMALLER)
    if sum(_found(schema, "multipleOf"), start=Decimal()) > _MULTIPLES:
        raise _bad_schema(f"multipleOf: all such numbers together may come to {_MULTIPLES:,}.")
    if sum(1 for _ in _under(schema, "$ref")) > _MOST_RULES:
        raise _bad_schema(f"$ref: there may be {_MOST_RULES:,} of them.")


def closed_schema(schema: object) -> dict[str, Any]:
    """Return a schema, as parsed JSON or its text, whose objects have only what is listed; raises UsageError."""
    parsed = _parsed(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, dict):
        raise _bad_schema("A schema is a JSON object.", hint=_SCHEMA_HINT)
    try:
        _check_size(parsed)
        closed: dict[str, Any] = parsed if _has(parsed, "allOf") else _closed(parsed)
    except (ValueError, RecursionError) as refused:
        raise _bad_schema(f"It can't be read: {refused}.") from refused
    return closed


def _parsed(text: str) -> object:
    if len(text) > LIMITS.characters:
        raise _bad_schema(LONGER, hint=SMALLER)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad_schema(f"It is no JSON: {error}.", hint=_SCHEMA_HINT) from error


def _bad_schema(cause: str, *, hint: str = _LEAVE_OUT) -> UsageError:
    return UsageError("The JSON schema can't be used.", cause=cause[:_LONGEST_CAUSE], hint=hint)


def _has(value: object, key: str) -> bool:
    return next(_under(value, key), None) is not None


def _under(value: object, key: str) -> Iterator[object]:
    """Yield what stands under a key, however deep."""
    if isinstance(value, dict):
        yield from (inner for name, inner in value.items() if name == key)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _under(inner, key)


def _found(value: object, key: str) -> Iterator[Decimal]:
    """Yield the numbers under a key without sign and point: 1.05 as 105."""
    for number in _under(value, key):
        if isinstance(number, int | float) and isfinite(number):
            _, digits, exponent = Decimal(str(number)).as_tuple()
            yield Decimal((0, digits, max(0, int(exponent))))


def _closed(schema: Any) -> Any:
    """Return a schema whose objects have no properties but those that are listed, where it leaves that open."""
    return rewritten(schema, _with_what_is_listed)


def _with_what_is_listed(part: dict[str, Any]) -> dict[str, Any]:
    closed = {key: value for key, value in part.items() if (key, value) != _ANY_NAMES}
    if isinstance(closed.get("properties"), Mapping) and "patternProperties" not in closed:
        closed.setdefault("additionalProperties", False)
    return closed
