"""Traversal of a JSON schema: which members are keywords, which are names of properties, and which are plain values."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

SCHEMAS_BY_NAME = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords whose values are schemas by name."""
VALUES = ("enum", "const", "default", "examples", "required", "x-guidance")
"""Keywords whose values are never schemas."""
Change = Callable[[dict[str, Any]], dict[str, Any]]


def rewritten(schema: Any, change: Change) -> Any:
    """Return a schema in which each object that is a schema was changed, the innermost first."""
    if isinstance(schema, list):
        return [rewritten(each, change) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    return change({key: _part(key, value, change) for key, value in schema.items()})


def has_more_values(document: object, most: int) -> bool:
    """Return whether parsed JSON has more than `most` values; stops counting there."""
    left, level = most, [document]
    while level and left >= 0:
        value = level.pop()
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        left -= 1
        level += islice(inner, max(0, left + 1))
    return left < 0


def _part(key: str, value: Any, change: Change) -> Any:
    if key in SCHEMAS_BY_NAME and isinstance(value, Mapping):
        return {name: rewritten(each, change) for name, each in value.items()}
    return value if key in VALUES else rewritten(value, change)
