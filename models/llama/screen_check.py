"""Check whether a draft model proposes equal tokens with a screened output matrix.

By the signs of its weights a row of few numbers differs from others with less certainty, and worse still where some
numbers are far larger than all others. Of the draft tokens of Qwen2.5-Coder 0.5B 998 of 1,000 stay equal, of those of
SmolLM2 135M nine of ten.
"""

import numpy as np

from models.base import LanguageModel
from models.llama.model import LlamaModel
from models.llama.probe import identity
from models.sampling.likeliest import likeliest
from models.system.remembered import Remembered

_LEAST = 0.97
"""Least share of equal draft tokens, 0 to 1: screening saves a seventh of a step, a changed token costs a token."""
_TOKENS = 96
_SCREENED = 4
"""Rows of a pass that are screened; those of a wide one are whole."""
_TEXT = (
    "The library opens at nine and closes at six, except on Sundays. Anyone can borrow up to five books at a time, and "
    "keep them for three weeks.\n\ndef overdue(books, today):\n"
    "    late = [book for book in books if book.due < today]\n"
    '    return {"count": len(late), "titles": sorted(book.title for book in late)}\n\nLa bibliothèque est fermée le '
    "dimanche. How many books are late? There are 12 of them, which is more than last year."
)


def settle_screen(model: LanguageModel, known: Remembered | None = None) -> None:
    """Close the screen of a draft model, just loaded, if its draft tokens differ with it; `known` keeps what was seen.

    To see it takes about as long as to read two hundred tokens; the cache is empty afterwards. What is screened has
    made a pass: the first one takes the signs of all weights, twenty steps' time, which no answer should wait for.
    """
    if not isinstance(model, LlamaModel) or not model.screen.is_open:
        return
    key = f"screen {identity(model.path)}"
    fits = known.get(key) if known else None
    if fits is None:
        fits = _fits(model)
        if known:
            known.put(key, fits)
    elif fits:
        model.decode([0], rows=1)
        model.rewind(0)
    if not fits:
        model.screen.close()


def _fits(model: LlamaModel) -> bool:
    tokens = model.vocab.tokenize(_TEXT, special=False)[:_TOKENS]
    whole, screened = (likeliest(model, tokens, width) for width in (min(model.max_rows, 32), _SCREENED))
    return bool(np.mean(whole == screened) >= _LEAST)
