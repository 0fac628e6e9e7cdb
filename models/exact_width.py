"""How wide a pass may be before this machine rounds it differently from one token at a time.

llama.cpp chooses its kernels by the number of rows: past some width the same row comes out a little different, and a
near-tie between two tokens can fall the other way. Up to the width found here the logits are equal to the last bit, so
drafting that stays within it can't change the text. It depends on processor, build, weights and cache types: measured,
never assumed.
"""

import numpy as np

from models.base import LanguageModel

WIDEST = 9
"""Wider passes are not looked at: the check has to be over in a second or two."""
_PREFIX = 4
_TEXT = "The quick brown fox jumps over the lazy dog; 3 of 7 dogs don't mind (much)."


def exact_width(model: LanguageModel) -> int:
    """Return the widest pass, from 1 on, whose rows equal those of one-token passes to the last bit.

    Leaves the cache empty, also when it is stopped.
    """
    widest = min(WIDEST, model.max_rows, model.batch_size, model.context_size - _PREFIX)
    tokens = (model.vocab.tokenize(_TEXT, special=False) * WIDEST)[: _PREFIX + widest]
    try:
        return _widest_exact(model, tokens[:_PREFIX], tokens[_PREFIX:])
    finally:
        model.rewind(0)


def _widest_exact(model: LanguageModel, prefix: list[int], text: list[int]) -> int:
    model.rewind(0)
    model.decode(prefix, rows=0)
    narrow = [model.decode([token], rows=1)[0].copy() for token in text]
    for width in range(2, len(text) + 1):
        model.rewind(0)
        model.decode(prefix, rows=0)
        if not np.array_equal(model.decode(text[:width], rows=width), narrow[:width]):
            return width - 1
    return len(text)
