"""Most probable next token of a model at every place of a text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.base import LanguageModel


def likeliest(model: LanguageModel, tokens: Sequence[int], width: int, size: int | None = None) -> NDArray[Any]:
    """Return the likeliest token after each of some, from passes over so many, among the first `size` ids.

    The cache then holds what it held before, which it must be able to go back to.
    """
    before = model.length
    try:
        starts = range(0, len(tokens), width)
        passes = (model.decode(part := tokens[start : start + width], rows=len(part)) for start in starts)
        return np.concatenate([rows[:, :size].argmax(axis=1) for rows in passes])
    finally:
        model.rewind(before)
