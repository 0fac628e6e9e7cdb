"""Drafters without a model, by name; their cost is negligible."""

from collections.abc import Callable

from drafters.base import Drafter
from drafters.prompt_lookup import PromptLookup
from drafters.registry import DrafterSpec
from drafters.suffix import SuffixDrafter


def free_drafters(spec: DrafterSpec, is_end: Callable[[int], bool]) -> list[Drafter]:
    """Return those among the drafters asked for; `is_end` tells whether a token ends an answer."""
    if spec.kind == "lookup":
        return [PromptLookup(is_end)]
    return [] if spec.kind == "model" else [SuffixDrafter(is_end)]
