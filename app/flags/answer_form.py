"""The flags that say what an answer has to look like: a grammar or a JSON schema, given as it is or in a file."""

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
"""By the names of their parameters."""


def read_grammar(flags: dict[str, Any]) -> Grammar | None:
    """Return the form of the answer that flags ask for, if any; raises UsageError."""
    given = {name: flags[name] for name in FORM_FLAGS if flags[name] is not None}
    if len(given) > 1:
        first, second, *_ = (FORM_FLAGS[name] for name in given)
        raise UsageError(f"{first} and {second} both say what the answer looks like.", hint="Leave out one of the two.")
    for name, said in given.items():
        text = _text(name, said)
        return Grammar.of_schema(text) if name.startswith("json") else Grammar.of_text(text)
    return None


def _text(name: str, said: str) -> str:
    """Return what a flag says, or its file; raises UsageError for what can be no form at all."""
    flag = FORM_FLAGS[name]
    if name.endswith("_file"):
        flag, said = f"{flag} {said}", read_file(flag, Path(said), strict=True)
    if not said.strip():
        raise UsageError(f"{flag} is empty.", hint="Is a variable of the shell unset? Leave it out for any answer.")
    try:
        said.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{flag} is not UTF-8.", hint="Check the encoding of the terminal.") from error
    return said
