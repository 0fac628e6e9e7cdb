"""The form of an answer from a schema of which some keywords can't be enforced."""

import json
from collections.abc import Mapping
from typing import Any

from models.errors import UsageError
from models.forms.form_checker import fault
from models.forms.grammar import Grammar
from models.forms.relaxed_schema import relaxed


def usable_form(schema: object) -> tuple[Grammar, list[str]]:
    """Return the form of a schema without what can't be enforced, and the names of that; [] where all of it is.

    Raises UsageError where more is wrong with the schema.
    """
    try:
        return Grammar.of_schema(schema), []
    except UsageError:
        if not isinstance(schema, dict):
            raise
        loose, names = relaxed(schema, _fault_of)
        if not names:
            raise
        return Grammar.of_schema(loose), names


def _fault_of(schema: Mapping[str, Any]) -> str:
    try:
        return fault(json.dumps({"grammars": [{"json_schema": schema}]}))
    except (ValueError, RecursionError) as error:
        # What can't be read at all has no part that could be left out.
        return str(error)
