"""Number of prompts and presence of a draft model, for the three checks of `verify`."""

import sys
from collections.abc import Mapping
from typing import Any

from models.library.names import PAIR

FEW = 1
"""Built-in prompts of each class without --limit: there are many classes."""


def read_limit(flags: dict[str, Any]) -> int:
    """Return the number of prompts of each class: without --limit all of a file, and a few of the built-in ones."""
    limit: int | None = flags["limit"]
    return limit or (FEW if flags["prompts"] is None else sys.maxsize)


def has_draft(model: str | None, flags: Mapping[str, Any]) -> bool:
    """Tell whether a draft model is named, by --draft or by a pair."""
    return bool(flags["draft"]) or (flags["model_option"] or model or "").startswith(PAIR)
