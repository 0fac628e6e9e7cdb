"""TrimmedModel, a draft model with a smaller vocabulary, in the tokens of its target."""

from collections.abc import Sequence

import numpy as np

from models.base import LanguageModel, Logits, ModelView, Vocab
from models.token_map import TokenMap


class TrimmedModel(ModelView):
    """View of a draft model and its cache: logits of tokens that it does not have are minus infinity."""

    def __init__(self, model: LanguageModel, token_map: TokenMap, vocab: Vocab) -> None:
        """Take a loaded model, the map of its tokens, and the target's vocabulary, for which the map has no reasons."""
        super().__init__(model)
        self._map = token_map
        self._vocab = vocab
        # Filled once: a pass writes the columns of the tokens that the model has.
        self._rows: Logits = np.full((model.max_rows, vocab.size), -np.inf, np.float32)

    @property
    def vocab(self) -> Vocab:
        """The target's tokens."""
        return self._vocab

    @property
    def length(self) -> int:
        """Number of tokens in the cache."""
        return self._model.length

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        """Append tokens of the target to the cache; see `models.base.LanguageModel`."""
        found = self._model.decode(self._map.nearest[np.asarray(tokens, np.int64)].tolist(), rows, parents)
        self._rows[:rows, self._map.kept] = found
        return self._rows[:rows]

    def rewind(self, length: int) -> None:
        """Cut the cache to its first `length` tokens."""
        self._model.rewind(length)

    def can_rewind(self, length: int) -> bool:
        """Return whether `rewind(length)` would work now."""
        return self._model.can_rewind(length)

    def close(self) -> None:
        """Free the model."""
        self._model.close()
