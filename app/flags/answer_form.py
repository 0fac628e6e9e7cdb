"""Flags for the form of an answer: a grammar or a JSON schema, given directly or in a file."""

from pathlib import Path
from typing import Any

from app.flags.input_file import read_file
from models.errors import UsageError
from models.forms.grammar import Grammar

FORM_FLAGS = {
    "grammar": "--grammar",
    "grammar_file": "--grammar-file",
    "json_schema": "--json-schema",
    "json_schema_file": "--json-schema-file",
}
"""The form flags by the names of their parameters."""


def read_grammar(flags: dict[str, Any]) -> Grammar | None:
    """Return the form that the flags request, None for none; raises UsageError."""
    given = {name: flags[name] for name in FORM_FLAGS if flags[name] is not None}
    if len(given) > 1:
        first, second, *_ = (FORM_FLAGS[name] for name in given)
        raise UsageError(f"{first} and {second} both set the form of the answer.", hint="Leave out one of the two.")
    for name, value in given.items():
        text = _text(name, value)
        return Grammar.of_schema(text) if name.startswith("json") else Grammar.of_text(text)
    return None


def _text(name: str, value: str) -> str:
    """Return the text of a form flag, or of its file; raises UsageError for a text that can't be a form."""
    flag = FORM_FLAGS[name]
    if name.endswith("_file"):
        flag, value = f"{flag} {value}", read_file(flag, Path(value), strict=True)
    if not value.strip():
        raise UsageError(
            f"{flag} is empty.", hint="A shell variable may be unset. Leave out the flag for a free answer."
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{flag} is not valid UTF-8.", hint="Check the encoding of the terminal.") from error
    return value
