"""Choice of a slot for a question."""

from typing import NamedTuple


class Fitness(NamedTuple):
    """Fit of a question to a slot, compared field by field; larger is better.

    A slot that has read much of the prompt is best, then an empty slot, then one of equal purpose: completions do not
    overwrite conversations, nor conversations completions.
    """

    reused_tokens: int
    """Prompt tokens that its cache holds; 0 for few, such as a system prompt: no reason to overwrite the slot."""
    unused: bool
    same_purpose: bool
    shares_passes: bool
    """Whether its passes can be shared with those of running answers."""
