"""Families of models with one tokenizer, and the small sibling of each that can guess for the larger ones."""

import re

_SIBLINGS = (
    (r"qwen2\.5-coder", "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"),
    (r"qwen2\.5", "Qwen/Qwen2.5-0.5B-Instruct-GGUF"),
    (r"qwen3(?!\.)", "unsloth/Qwen3-0.6B-GGUF"),
    (r"llama-3", "bartowski/Llama-3.2-1B-Instruct-GGUF"),
    (r"smollm2", "bartowski/SmolLM2-135M-Instruct-GGUF"),
    (r"gemma-3(?!n)", "unsloth/gemma-3-270m-it-GGUF"),
)
"""Words in the name of a repository, and the repository of the sibling; the first that fits counts."""


def small_sibling(repo: str) -> str | None:
    """Return the repository of the small model of this one's family; None where none is known, or it is that itself.

    A name promises little: whether the two are a pair is told by their headers alone.
    """
    name = repo.partition("/")[2].lower()
    for words, sibling in _SIBLINGS:
        if re.search(words, name):
            return None if sibling.partition("/")[2].lower() == name else sibling
    return None
