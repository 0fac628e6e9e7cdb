"""Tool schemas without the keywords that can't be enforced, so that one of them does not make all tools fail.

What is relaxed is named; an answer in its place is still JSON of the rest of the schema. A schema that is none (a type
that does not exist, a reference that leads nowhere) is not relaxed.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from models.forms.form_checker import fault
from models.forms.schema_walk import Change, rewritten

_MOST = 16
"""Kinds of keywords in one schema that are relaxed one after the other."""
_KEYS = re.compile(r"Unimplemented keys: (\[.*\])", re.DOTALL)
_FORMAT = "Unknown format: "
_ONE_OF = "oneOf"
_REGEX = "regex"
"""In the error of a pattern that can't be read (a look-ahead, a reference back), or can't be met with another."""


def relaxed(
    schema: Mapping[str, Any], fault_of: Callable[[Mapping[str, Any]], str]
) -> tuple[Mapping[str, Any], list[str]]:
    """Return a schema without what can't be enforced, and the names of that; `fault_of` tells what is wrong with one.

    It comes back as it is, with no names, where something else is wrong with it.
    """
    loose: Mapping[str, Any] = schema
    names: list[str] = []
    for _ in range(_MOST):
        if not (error := fault_of(loose)):
            return loose, names
        found, change = _relaxation(error)
        if change is None or (looser := rewritten(loose, change)) == loose:
            break
        loose = looser
        names += [name for name in found if name not in names]
    return schema, []


def _relaxation(error: str) -> tuple[list[str], Change | None]:
    """Return the keywords that an error of the compiler is about, and what takes them away."""
    if match := _KEYS.match(error):
        keys = _names(match[1])
        return keys, lambda part: {key: value for key, value in part.items() if key not in keys}
    if error.startswith(_FORMAT):
        kind = error.removeprefix(_FORMAT)
        return ["format"], lambda part: {k: v for k, v in part.items() if (k, v) != ("format", kind)}
    if error.startswith(_ONE_OF):
        return [_ONE_OF], _any_of
    return (["pattern"], _without_patterns) if _REGEX in error else ([], None)


def _names(listed: str) -> list[str]:
    try:
        names = json.loads(listed)
    except ValueError:
        return []
    return [name for name in names if isinstance(name, str)]


def _any_of(part: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that lets one choice pass or several, where it wants one alone."""
    if _ONE_OF not in part or "anyOf" in part:
        return {key: value for key, value in part.items() if key != _ONE_OF}
    return {"anyOf" if key == _ONE_OF else key: value for key, value in part.items()}


def _without_patterns(part: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without a pattern that can't be read by itself, or that shares its text with other limits."""
    if isinstance(pattern := part.get("pattern"), str) and (_is_odd(pattern) or _is_shared(part)):
        part = {key: value for key, value in part.items() if key != "pattern"}
    by_name = part.get("patternProperties")
    if (
        isinstance(by_name, Mapping)
        and (kept := {key: one for key, one in by_name.items() if not _is_odd(key)}) != by_name
    ):
        part = {**part, "patternProperties": kept, "additionalProperties": True}
    return part


def _is_odd(pattern: str) -> bool:
    return bool(fault(json.dumps({"grammars": [{"json_schema": {"type": "string", "pattern": pattern}}]})))


def _is_shared(part: Mapping[str, Any]) -> bool:
    return bool(part.keys() & {"minLength", "maxLength", "format", "allOf"})
