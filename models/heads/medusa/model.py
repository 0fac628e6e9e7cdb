"""MedusaModel, heads on the target's last hidden row that draft all places of a draft at once.

There is no cache and nothing to read: a draft follows from the target's row after the last token that it has read. A
pass over a draft computes that row for each of its tokens, and so does the last pass over a prompt. Where the row of
the very last token is not there, as after an accepted sibling, a later head drafts from the row before.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.base import Logits
from models.heads.block_model import Block, BlockModel
from models.heads.medusa.network import MedusaNetwork, Row
from models.llama.load import threads_of


class MedusaModel(BlockModel):
    """Medusa heads for one target; see `BlockModel`. The logits are minus infinity for tokens that no head drafts."""

    def rows_after(self, length: int, count: int) -> Sequence[Row]:
        """Return logits for at most `count` places after a text of so many tokens, each of shape (vocabulary,).

        None where the target's row is not there, or is so old that no head reaches beyond the text.
        """
        known = min(self.target.length, length - 1)
        row = self._tap.rows(known - 1, known)[0]
        first = length - 1 - known
        places = range(first, min(first + count, self._network.heads))
        if not places or not row.any():
            return ()
        return _Filled(self._logits(row, places), self._network.kept, self.vocab.size).all()

    def join_context(self) -> None:
        """Let the target's new context hand out its rows; the heads have no context of their own."""
        self._tap.enable()
        self._length, self._own, self._is_open = 0, None, True
        self._injected = self._true = 0

    def leave_context(self) -> None:
        """Do nothing: the heads hold nothing of a context."""

    def close(self) -> None:
        """Free the heads if no other text uses them; calling it twice is fine."""
        if self._is_open:
            self._is_open = False
            self.target.listeners.remove(self)
            self.head.leave()

    @property
    def _network(self) -> MedusaNetwork:
        network: MedusaNetwork = self.head.weights
        return network

    def _inject(self, length: int) -> None:
        """Do nothing: there is no cache."""

    def _block(self, pending: int, start: int, count: int) -> Block:  # noqa: ARG002
        """Return a whole draft, with any numbers where the row before the pending token is not there."""
        before = self.first_place + start
        logits = self._logits(self._tap.rows(before - 1, before)[0], range(count))
        return _Filled(logits, self._network.kept, self.vocab.size)

    def _logits(self, row: Row, places: Sequence[int]) -> Logits:
        return self._network.logits(row, places, self._threads())

    def _threads(self) -> int:
        """Return the threads of a product: those that the target uses, as far as their cores are free."""
        threads, _ = threads_of(self.target.options)
        cores = self.target.free_cores
        return threads if cores is None else max(1, min(threads, cores.count()))


class _Filled:
    """Logits of the tokens that can be drafted, as rows over the whole vocabulary."""

    def __init__(self, logits: NDArray[np.float32], kept: NDArray[np.int64], vocabulary: int) -> None:
        self._logits, self._kept, self._vocabulary = logits, kept, vocabulary

    def row(self, place: int, before: int = -1) -> Row:  # noqa: ARG002
        """Return the logits for a place, which do not depend on the draft token before it."""
        row = np.full(self._vocabulary, -np.inf, np.float32)
        row[self._kept] = self._logits[place]
        return row

    def all(self) -> Sequence[Row]:
        return [self.row(place) for place in range(len(self._logits))]
