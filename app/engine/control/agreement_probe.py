"""Agreement of a draft model with its target, measured before their first answer: both read one text.

Reading a prompt with an unproven draft model may cost more than a short answer can gain. The text is no answer of
the target, so the result is only a prior: see `Acceptance.expect`.
"""

import numpy as np

from models.base import LanguageModel
from models.sampling.likeliest import likeliest

_TOKENS = 96
"""Most tokens of the text to read."""
_TEXT = (
    "To find the oldest book in a list, compare the years one after the other and keep the smallest. Here is a "
    "function that does this:\n\n```python\ndef oldest(books):\n"
    '    """Return the book that was published first."""\n    if not books:\n        return None\n'
    "    return min(books, key=lambda book: book.year)\n```\n\nIf the list is empty, the function returns `None`. "
    "Otherwise, it returns the book with the smallest year. You can also sort the list by year, but that takes more "
    "time than is needed for a single book."
)


def agreement(target: LanguageModel, draft: LanguageModel) -> float | None:
    """Return the share of places, 0 to 1, where both models predict one token; None where it can't be measured.

    Takes as long as reading a hundred tokens with both. Restores the caches.
    """
    bos = [] if target.vocab.bos is None else [target.vocab.bos]
    text = [*bos, *target.vocab.tokenize(_TEXT, special=False)][:_TOKENS]
    if not (_takes(target, text) and _takes(draft, text)):
        return None
    shared = min(target.vocab.size, draft.vocab.size)
    theirs, own = (likeliest(model, text, _width(model), shared) for model in (target, draft))
    return float(np.mean(theirs == own))


def _takes(model: LanguageModel, text: list[int]) -> bool:
    """Tell whether a model has room for the text after its cache's content, and can take it back."""
    goes_back = model.length == 0 or model.rewind_support.limit is None
    return goes_back and model.length + len(text) <= model.context_size and max(text) < model.vocab.size


def _width(model: LanguageModel) -> int:
    return min(model.max_rows, model.batch_size)
