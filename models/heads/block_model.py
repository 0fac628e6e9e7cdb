"""BlockModel, a draft head that drafts a block of tokens in one pass: DFlash, DFlash2, DSpark.

Its cache holds what it makes of the target's layers at each place that the target has read. A block is the pending
token and a mask for each token to draft; all of them see the cache, and each other. It leaves nothing in the cache. So
a draft of k tokens costs one pass, and what the target has emitted is put into the cache without a pass of its own
for each token.

Sources: DFlash (Chen et al. 2026, arXiv 2602.06036).
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.base import Logits, ModelView
from models.errors import Cancelled
from models.gguf.block_heads import BlockShape
from models.heads.head_context import BATCH
from models.heads.head_model import HeadModel
from models.heads.loaded_head import LoadedHead
from models.llama.model import LlamaModel

Row = NDArray[np.float32]


class Block(Protocol):
    """Protocol of a drafted block, until the next pass of its head."""

    def row(self, place: int, before: int) -> Row:
        """Return the logits for a place, counted from 0, after a draft token before it; shape (vocabulary,)."""


class BlockModel(HeadModel):
    """A head that drafts blocks, with one cache, for one target; see `HeadModel`.

    As a language model it predicts the token after each place with a block of one token.
    """

    def __init__(self, head: LoadedHead, target: LlamaModel) -> None:
        """Join a loaded head to a target whose cache is empty; raises LocalspecError where the engine can't."""
        super().__init__(head, target)
        self.shape = _shape_of(head)
        self.longest = min(self.shape.longest, BATCH - 1)

    def join_context(self) -> None:
        """Open a context beside the target's, with an empty cache."""
        super().join_context()
        self._injected = self._true = 0
        """Number of places in the cache, and of those of them with rows that the target had computed."""

    @property
    def first_readable(self) -> int:
        """First place of the target's text that can be put into the cache: its row is kept."""
        return self._tap.first

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        """Append tokens; return the logits after each of the last `rows`, a block each, shape (rows, vocab.size).

        The target's rows are put into the cache when a block needs them; rows that the tap has not kept count as zeros.
        """
        self._check(tokens, rows, parents)
        if self.target.handles[2].is_set:
            raise Cancelled("Stopped.")
        self._keep_true()
        start = self._length
        self._length += len(tokens)
        try:
            # The rows of what is read are there now, and may be gone when they are needed.
            self._inject(self._length - max(1, rows))
            found = [self._predicted(token, place) for place, token in self._last(tokens, rows)]
        except BaseException:
            self._length = start
            self._cut(min(self._injected, start))
            raise
        return np.array(found) if found else np.empty((0, self.vocab.size), np.float32)

    def rewind(self, length: int) -> None:
        """Cut the cache to its first `length` tokens."""
        if not 0 <= length <= self._length:
            raise ValueError(f"a cache of {self._length} tokens can't be rewound to {length}")
        self._cut(min(self._injected, length))
        self._length = length

    def block(self, pending: int, count: int) -> Block:
        """Draft `count` tokens, at most `longest`, after a token that follows all those in the cache.

        Raises Cancelled.
        """
        if not 1 <= count <= self.longest:
            raise ValueError(f"a block of {count} tokens; 1 to {self.longest} can be drafted")
        self._keep_true()
        self._inject(self._length)
        return self._block(pending, self._length, count)

    def _last(self, tokens: Sequence[int], rows: int) -> list[tuple[int, int]]:
        first = len(tokens) - rows
        return [(self._length - rows + place, token) for place, token in enumerate(tokens[first:])]

    def _predicted(self, token: int, place: int) -> Row:
        self._inject(place)
        return self._block(token, place, 1).row(0, token).copy()

    def _inject(self, length: int) -> None:
        """Put the target's rows of the first `length` places into the cache, if they are not there yet."""
        if length > self._injected:
            first = self.first_place
            self._open.inject(self._tap.rows(first + self._injected, first + length), self._injected)
            self._injected = length
            self._true = max(self._true, min(length, self.target.length - first))

    def _keep_true(self) -> None:
        """Take out of the cache what was put there before the target had read it."""
        self._cut(self._true)

    def _cut(self, length: int) -> None:
        if length < self._injected:
            self._open.cut(length)
            self._injected = length
        self._true = min(self._true, self._injected)

    def _block(self, pending: int, start: int, count: int) -> Block:
        size = count if self.shape.from_anchor else count + 1
        found = self._open.block([pending, *[self.shape.mask] * (size - 1)], start)[size - count :]
        candidates = self.shape.candidates
        return _Lattice(found, candidates, self.vocab.size) if candidates else _Rows(found)


class _Rows:
    """A block with a row of logits for each place, which do not depend on the draft tokens before."""

    def __init__(self, rows: Logits) -> None:
        self._rows = rows

    def row(self, place: int, before: int) -> Row:  # noqa: ARG002
        row: Row = self._rows[place]
        return row


class _Lattice:
    """A block with some candidates for each place, and scores for each after each candidate of the place before."""

    def __init__(self, rows: Logits, candidates: int, vocabulary: int) -> None:
        self._tokens = rows[:, :candidates].astype(np.int64)
        self._scores = rows[:, candidates : candidates * (candidates + 1)].reshape(-1, candidates, candidates)
        self._vocabulary = vocabulary

    def row(self, place: int, before: int) -> Row:
        """Return the scores of the candidates, minus infinity for other tokens."""
        # At the first place all predecessors are the pending token.
        known = np.flatnonzero(self._tokens[place - 1] == before)
        row = np.full(self._vocabulary, -np.inf, np.float32)
        row[self._tokens[place]] = self._scores[place, known[0] if place and len(known) else 0]
        return row


def _shape_of(head: LoadedHead) -> BlockShape:
    assert head.options.block is not None, "only such heads draft blocks"
    return head.options.block


class WholeBlocks(ModelView):
    """Whole blocks of a head as passes, to be timed: `decode` of n tokens drafts a block of n."""

    def __init__(self, head: BlockModel) -> None:
        """Take a head; its cache stays as it is."""
        super().__init__(head)
        self.head = head
        self.max_rows = self.batch_size = max(1, min(head.longest, head.context_size - head.length - 1))

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:  # noqa: ARG002
        """Draft a block of as many tokens, after the first; return no rows."""
        self.head.block(tokens[0], len(tokens))
        return np.empty((0, self.vocab.size), np.float32)

    def rewind(self, length: int) -> None:
        """Do nothing: a block leaves nothing in the cache."""

    def close(self) -> None:
        """Do nothing: the head is its owner's."""
