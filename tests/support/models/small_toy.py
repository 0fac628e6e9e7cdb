"""A toy with fewer tokens than its target, and the map from one to the other."""

from collections.abc import Sequence

import numpy as np

from models.base import Logits, ModelView, Vocab
from models.token_map import TokenMap
from models.toy import ToyModel, ToyVocab


class FewVocab(ToyVocab):
    """Some tokens of a toy's vocabulary, numbered anew."""

    def __init__(self, whole: Vocab, kept: Sequence[int]) -> None:
        super().__init__()
        self._whole, self._kept = whole, kept
        self.size = len(kept)

    def text(self, token: int) -> str:
        return self._whole.text(self._kept[token])

    def is_end(self, token: int) -> bool:
        return self._whole.is_end(self._kept[token])


class SmallToy(ModelView):
    """A toy that speaks some tokens alone, by numbers of its own."""

    def __init__(self, toy: ToyModel, token_map: TokenMap) -> None:
        super().__init__(toy)
        self._kept = token_map.kept
        self._few = FewVocab(toy.vocab, token_map.kept.tolist())

    @property
    def vocab(self) -> Vocab:
        return self._few

    @property
    def length(self) -> int:
        return self._model.length

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        return self._model.decode(self._kept[list(tokens)].tolist(), rows, parents)[:, self._kept]

    def rewind(self, length: int) -> None:
        self._model.rewind(length)

    def can_rewind(self, length: int) -> bool:
        return self._model.can_rewind(length)

    def close(self) -> None:
        self._model.close()


def map_without(left_out: Sequence[int], size: int) -> TokenMap:
    """Return the map of a vocabulary that lacks some tokens; the nearest of one that it lacks is its first."""
    kept = np.array([token for token in range(size) if token not in left_out], np.int32)
    nearest = np.zeros(size, np.int32)
    nearest[kept] = np.arange(len(kept))
    return TokenMap(kept, nearest)
