"""Methods of `forge` by the names that users write: a new one is a file of that name here, and an entry."""

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    # The flags are read, and --help written, without any method.
    from app.forge.methods.base import Method

METHODS = {
    "eagle3": "a one-layer head that reads three of the target's layers",
    "medusa": "heads that each predict one place of a draft from the target's last row",
    "distil": "a draft model, such as the starter, trained on the target's answers",
    "prune": "the target with blocks left out",
    "trim": "a draft model of the target with fewer tokens",
}
"""Name, and what the drafter is. The file has a constant METHOD; one that makes heads is in `models.library.forged`."""


def method_named(name: str) -> "Method":
    """Import a method by its name."""
    return cast("Method", import_module(f"app.forge.methods.{name}").METHOD)
