"""Registry of drafters by the names that users write."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from models.errors import UsageError

if TYPE_CHECKING:
    # The flags are read, and --help written, without any drafter.
    from drafters.base import Drafter

IsEnd = Callable[[int], bool]
"""Tells whether a token ends an answer."""


@dataclass(frozen=True, slots=True)
class FreeDrafter:
    """A drafter that needs no model: it costs next to nothing."""

    factory: str
    """Module and class, as in "drafters.suffix:SuffixDrafter"; called with one argument, an `IsEnd`."""
    summary: str
    """What its drafts are, in a line for pickers."""
    drafts_trees: bool = False
    """Whether its drafts have tokens beside the chain."""

    def make(self, is_end: IsEnd) -> "Drafter":
        """Import the class and return a new, empty drafter."""
        module, _, name = self.factory.partition(":")
        factory = cast("Callable[[IsEnd], Drafter]", getattr(import_module(module), name))
        return factory(is_end)


FREE_DRAFTERS = {
    "lookup": FreeDrafter(
        "drafters.prompt_lookup:PromptLookup", "what followed the same three words earlier in the conversation"
    ),
    "suffix": FreeDrafter("drafters.suffix:SuffixDrafter", "what followed the longest repeat of the text's end"),
    "recycle": FreeDrafter(
        "drafters.recycle:Recycle", "the model's own likeliest tokens after the last one, in earlier passes", True
    ),
    "lookahead": FreeDrafter(
        "drafters.lookahead:Lookahead", "n-grams that the model generated ahead of the text, in the same passes", True
    ),
}
"""Every drafter without a model, by name: a new one is one more entry.

A name has small letters and hyphens. Flags, `--help`, completion, pickers, benchmark arms and `verify` follow.
"""
AUTO, OFF = "auto", "off"
"""The kinds that stand for no single drafter."""
HEAD = "mtp"
"""The kind of the head that a target has in its own file, or beside it."""
FREE_OF_AUTO = "suffix"
"""The drafter without a model that "auto" uses."""


def names_without_model() -> tuple[str, ...]:
    """Return the drafters that are named by themselves, without a file."""
    return (OFF, *FREE_DRAFTERS, HEAD, AUTO)


def names_to_offer() -> tuple[str, ...]:
    """Return these names for completion and pickers: auto and the drafter that it uses first, off last."""
    return (AUTO, *sorted(FREE_DRAFTERS, key=lambda name: name != FREE_OF_AUTO), HEAD, OFF)


def drafter_help() -> str:
    """Return what `--draft` takes, in words."""
    names = ", ".join((OFF, *FREE_DRAFTERS))
    return f"{names}, {HEAD} (the model's own head), auto (the default), a small GGUF, or model:GGUF to use only that"


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """A drafter asked for by name."""

    kind: str
    """A name of `FREE_DRAFTERS`, or "off", "mtp" (a head), "model" (a draft model alone), "auto" (what pays off)."""
    model: str = ""
    """Name or path of the draft model: of kind "model", and of "auto" when one was given."""

    def __str__(self) -> str:
        return f"model:{self.model}" if self.kind == "model" else self.model or self.kind


def parse_drafter(text: str) -> DrafterSpec:
    """Read a drafter without a model, "off", "auto", "model:PATH" or a bare path; raises UsageError."""
    if text in names_without_model():
        return DrafterSpec(text)
    name = text.removeprefix("model:")
    if name.isdigit():
        raise UsageError(
            f"--draft {text} is a number, not a drafter.",
            hint=f"A draft length is --draft-max {text}, in a chat /set draft-max {text}. "
            f"A drafter is: {drafter_help()}.",
        )
    if not name:
        raise UsageError("--draft does not name a drafter.", hint=f"Use one of: {drafter_help()}.")
    return DrafterSpec(AUTO if name == text else "model", name)


def drafts_trees(kind: str) -> bool:
    """Tell whether a kind of drafter is one without a model that drafts trees."""
    registered = FREE_DRAFTERS.get(kind)
    return registered is not None and registered.drafts_trees


def free_drafters(spec: DrafterSpec, is_end: IsEnd) -> list["Drafter"]:
    """Return new drafters without a model for a spec: one, or none."""
    registered = FREE_DRAFTERS.get(FREE_OF_AUTO if spec.kind == AUTO else spec.kind)
    return [] if registered is None else [registered.make(is_end)]
