"""Agreement of a draft model with its target, measured before their first answer: both read one text.

Reading a prompt with an unproven draft model may cost more than a short answer can gain. The text is no answer of
the target, so the result is only a prior: see `Acceptance.expect`.
"""

from itertools import accumulate

import numpy as np

from drafters.base import ModelDrafter
from drafters.draft_model import DraftModel
from models.base import LanguageModel
from models.heads.head_model import HeadModel
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
    text = _text_of(target)
    if not (_takes(target, text) and _takes(draft, text)):
        return None
    shared = min(target.vocab.size, draft.vocab.size)
    theirs, own = (likeliest(model, text, _width(model), shared) for model in (target, draft))
    return float(np.mean(theirs == own))


def agreement_of(target: LanguageModel, drafter: ModelDrafter) -> float | None:
    """Return the agreement of a target and a drafter, by the measure for its kind."""
    if isinstance(drafter.model, HeadModel):
        return head_agreement(target, drafter.model)
    if drafter.drafts_text:
        return text_agreement(target, drafter.model)
    return agreement(target, drafter.spoken if isinstance(drafter, DraftModel) else drafter.model)


def head_agreement(target: LanguageModel, head: HeadModel) -> float | None:
    """Return the share of places, 0 to 1, where a target and its head predict one token; None as `agreement`.

    The head reads the text while the target holds it, beside the target's rows. Empties both caches.
    """
    text = _text_of(target)
    if (
        head.head.options.shares_cache
        or target.length
        or head.length
        or not (_takes(target, text) and _takes(head, text))
    ):
        return None
    width = min(_width(target), _width(head))
    try:
        passes = [text[start : start + width] for start in range(0, len(text), width)]
        theirs, own = (
            np.concatenate([model.decode(part, len(part)).argmax(axis=1) for part in passes])
            for model in (target, head)
        )
        return float(np.mean(theirs == own))
    finally:
        target.rewind(0)
        head.rewind(0)


def text_agreement(target: LanguageModel, draft: LanguageModel) -> float | None:
    """Return the share of places, 0 to 1, where two models with different tokens predict text that goes together.

    Places are those where a token of each begins; one of the two predictions must begin with the other. None, time and
    caches as `agreement`.
    """
    texts = [_text_of(model) for model in (target, draft)]
    if not (_takes(target, texts[0]) and _takes(draft, texts[1])):
        return None
    theirs, own = _predicted(target, texts[0]), _predicted(draft, texts[1])
    pairs = [(theirs[place], own[place]) for place in theirs.keys() & own.keys()]
    return float(np.mean([one.startswith(other) or other.startswith(one) for one, other in pairs])) if pairs else None


def _text_of(model: LanguageModel) -> list[int]:
    bos = [] if model.vocab.bos is None else [model.vocab.bos]
    return [*bos, *model.vocab.tokenize(_TEXT, special=False)][:_TOKENS]


def _predicted(model: LanguageModel, text: list[int]) -> dict[int, bytes]:
    """Return the likeliest piece after each token of a text, by the bytes before it; those without bytes left out."""
    ends = accumulate(len(model.vocab.piece(token)) for token in text)
    pieces = (model.vocab.piece(int(token)) for token in likeliest(model, text, _width(model)))
    return {end: piece for end, piece in zip(ends, pieces, strict=True) if end and piece}


def _takes(model: LanguageModel, text: list[int]) -> bool:
    """Tell whether a model has room for the text after its cache's content, and can take it back."""
    goes_back = model.length == 0 or model.rewind_support.limit is None
    return goes_back and model.length + len(text) <= model.context_size and max(text) < model.vocab.size


def _width(model: LanguageModel) -> int:
    return min(model.max_rows, model.batch_size)
