"""Families of models with one tokenizer, and the small sibling of each that can draft for the larger ones."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sibling:
    """A small model that can be fetched."""

    repo: str
    """Its repository on the hub."""
    parameters: int
    """As its makers say."""


_SIBLINGS = (
    (r"qwen2\.5-coder", Sibling("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", 494_000_000)),
    (r"qwen2\.5", Sibling("Qwen/Qwen2.5-0.5B-Instruct-GGUF", 494_000_000)),
    (r"qwen3(?!\.)", Sibling("unsloth/Qwen3-0.6B-GGUF", 596_000_000)),
    (r"llama-3", Sibling("bartowski/Llama-3.2-1B-Instruct-GGUF", 1_236_000_000)),
    (r"smollm2", Sibling("bartowski/SmolLM2-135M-Instruct-GGUF", 135_000_000)),
    (r"gemma-3(?!n)", Sibling("unsloth/gemma-3-270m-it-GGUF", 268_000_000)),
)
"""Words in the name of a model, and the sibling; the first that fits counts."""


def sibling_of(name: str) -> Sibling | None:
    """Return the small model of the family that a name speaks of; None where none is known.

    A name promises little: only their headers decide whether the two are a pair.
    """
    words = name.lower().replace(" ", "-")
    return next((sibling for family, sibling in _SIBLINGS if re.search(family, words)), None)


def is_sibling(name: str, sibling: Sibling) -> bool:
    """Tell whether a name is that of the small model itself, in whatever quantisation."""
    return _base(sibling.repo) in name.lower().replace(" ", "-")


def small_sibling(repo: str) -> str | None:
    """Return the repository of the small model of this one's family; None where none is known, or it is that itself."""
    name = repo.partition("/")[2]
    sibling = sibling_of(name)
    return None if sibling is None or _base(sibling.repo) == _base(repo) else sibling.repo


def _base(repo: str) -> str:
    return repo.partition("/")[2].lower().removesuffix("-gguf")
