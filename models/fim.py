"""Fill-in-the-middle prompts: the text before and after a hole, spelled with the markers a model was trained on."""

from models.base import Vocab
from models.fim_markers import FAMILIES


def fim_prompt(vocab: Vocab, prefix: str, suffix: str) -> list[int] | None:
    """Return the tokens that ask for the text between two others; None where the vocabulary has no markers for it.

    The texts are data: what looks like a control token in them stays text.
    """
    for family in FAMILIES:
        markers = [vocab.tokenize(marker) for marker in family]
        if [_spelling(vocab, marker) for marker in markers] == list(family):
            before, hole, middle = markers
            start = [] if vocab.bos is None else [vocab.bos]
            head, tail = (vocab.tokenize(text, special=False) for text in (prefix, suffix))
            return [*start, *before, *head, *hole, *tail, *middle]
    return None


def _spelling(vocab: Vocab, tokens: list[int]) -> str | None:
    """Return the spelling of a single token; None for a text that the vocabulary has no token of its own for."""
    return vocab.text(tokens[0]) if len(tokens) == 1 else None
