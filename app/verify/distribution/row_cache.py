"""Row cache over a model: rows are kept, and only passes with a new row are run.

At a fixed place in a text, rows depend only on the tokens decoded there. So the decoding loop can run thousands of
times with other seeds, at the cost of the passes that differ. A cached row is that of the first real pass over its
text, at the width that the loop requested.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.base import LanguageModel, Logits, ModelView, common_prefix
from models.tree import read_tree

Row = NDArray[np.float32]
"""Logits after one text, shape (vocabulary,)."""
_Value = TypeVar("_Value")


class LruCache(Generic[_Value]):
    """Cache of values by text, which drops the least recently used ones."""

    def __init__(self, limit: int) -> None:
        """Take the most bytes to keep; the latest value is always kept."""
        self.size = 0
        """Bytes in use."""
        self._limit = limit
        self._values: OrderedDict[tuple[int, ...], tuple[_Value, int]] = OrderedDict()

    def get(self, text: tuple[int, ...]) -> _Value | None:
        """Return the value of a text; None if it is not in the cache."""
        if text not in self._values:
            return None
        self._values.move_to_end(text)
        return self._values[text][0]

    def put(self, text: tuple[int, ...], value: _Value, size: int) -> None:
        """Keep a value of `size` bytes, and drop the least recently used ones."""
        _, before = self._values.pop(text, (None, 0))
        self._values[text] = (value, size)
        self.size += size - before
        while self.size > self._limit and len(self._values) > 1:
            _, (_, freed) = self._values.popitem(last=False)
            self.size -= freed


class KnownCache:
    """Real model with the text in its cache; moves to any text after which a row is needed."""

    def __init__(self, model: LanguageModel) -> None:
        """Take a model that no other code uses from now on."""
        self.model = model
        self.passes = 0
        """Number of passes run."""
        model.rewind(0)
        self._tokens: list[int] = []
        self._plain = 0

    def start(self, text: Sequence[int]) -> None:
        """Read a text anew, as a prompt: later rows then follow from equal bits."""
        self.model.rewind(0)
        self._tokens = []
        self._read(text)
        self._plain = len(text)

    def decode_after(
        self, text: Sequence[int], tokens: Sequence[int], rows: int, parents: Sequence[int] = ()
    ) -> Logits:
        """Run one pass over tokens after a text, whose missing part is read first."""
        self._go_back(text, len(self._tokens))
        self._read(text)
        return self._decode(tokens, rows, parents)

    def plain_row(self, text: Sequence[int], prompt: int) -> Row:
        """Return the row after a text as in plain decoding, valid until the next pass.

        Of the text, all tokens but the first `prompt` - 1 are read one at a time.
        """
        # Cache entries from other passes may be rounded differently.
        self._go_back(text[:-1], self._plain)
        self._read(text[: prompt - 1])
        for token in text[len(self._tokens) :]:
            row: Row = self._decode([token], 1, ())[0]
        self._plain = len(text)
        return row

    def _go_back(self, text: Sequence[int], known: int) -> None:
        same = common_prefix(self._tokens[:known], text)
        if not self.model.can_rewind(same):
            same = 0
        self.model.rewind(same)
        del self._tokens[same:]
        self._plain = min(self._plain, same)

    def _read(self, text: Sequence[int]) -> None:
        while (start := len(self._tokens)) < len(text):
            self._decode(text[start : start + self.model.batch_size], 0, ())

    def _decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int]) -> Logits:
        self.passes += 1
        try:
            return self.model.decode(tokens, rows, parents)
        finally:
            # Branches of a tree do not stay, and a pass that was stopped may have emptied the cache.
            self._tokens = [*self._tokens, *tokens][: self.model.length]


class RowCache(ModelView):
    """Language model with cached rows; see `models.base.LanguageModel`."""

    def __init__(self, cache: KnownCache, limit: int) -> None:
        """Take the real model, and the most bytes of cached rows."""
        super().__init__(cache.model)
        self._cache = cache
        self._rows: LruCache[Row] = LruCache(limit)
        self._stack = np.empty((0, self.vocab.size), np.float32)

    def hold(self, tokens: Sequence[int]) -> None:
        """Set the cache's content to these tokens; the real model reads them when a new row after them is needed."""
        self._tokens = list(tokens)

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        """Append tokens to the cache; return the logits after each of the last `rows`, shape (rows, vocab.size)."""
        off_chain = read_tree(parents, len(tokens), self.max_branches).off_chain if parents else 0
        texts = self._texts(tokens, rows, parents)
        kept = [row for text in texts if (row := self._rows.get(text)) is not None]
        logits = self._stacked(kept) if len(kept) == rows else self._run(tokens, rows, parents, texts)
        self._tokens += tokens[: len(tokens) - off_chain]
        return logits

    def rewind(self, length: int) -> None:
        """Cut the cache to its first `length` tokens."""
        del self._tokens[length:]

    def close(self) -> None:
        """Do nothing: the caller owns the real model."""

    def _texts(self, tokens: Sequence[int], rows: int, parents: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the text that each of the last `rows` tokens ends."""
        count, first, held = len(tokens), len(tokens) - len(parents), tuple(self._tokens)
        if not parents:
            return [(*held, *tokens[:end]) for end in range(count - rows + 1, count + 1)]
        tree = read_tree(parents, count, self.max_branches)
        ends = range(count - rows + 1, first + tree.chain + 1)
        branches = range(max(tree.chain, len(parents) - rows), len(parents))
        paths = ([tokens[first + step] for step in tree.path(node)] for node in branches)
        return [*((*held, *tokens[:end]) for end in ends), *((*held, *tokens[:first], *path) for path in paths)]

    def _run(
        self, tokens: Sequence[int], rows: int, parents: Sequence[int], texts: Sequence[tuple[int, ...]]
    ) -> Logits:
        logits = self._cache.decode_after(self._tokens, tokens, rows, parents)
        for text, logit_row in zip(texts, logits, strict=True):
            row = logit_row.copy()
            row.flags.writeable = False
            self._rows.put(text, row, row.nbytes)
        return logits

    def _stacked(self, rows: Sequence[Row]) -> Logits:
        if len(rows) == 1:
            return rows[0][np.newaxis]
        if len(self._stack) < len(rows):
            self._stack = np.empty((len(rows), self._stack.shape[1]), np.float32)
        stacked = self._stack[: len(rows)]
        for place, row in enumerate(rows):
            stacked[place] = row
        return stacked
