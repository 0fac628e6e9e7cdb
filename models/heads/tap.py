"""Tap of a target: the hidden rows of its last tokens, copied out of each pass before the next one overwrites them.

Rows of layers come from llama.cpp, or from copies where the target was opened to make them (`models.layer_rows`).
A hidden row is what the target knows after a token: float32, `width` numbers. Which rows a head reads depends on its
kind: the last hidden row, or the inputs of some layers, one after the other. Rows are kept by position, the last
`KEPT` of them; a rewound position is overwritten when it is read again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.heads.symbols import hidden_function
from models.llama.model import LlamaModel

Rows = NDArray[np.float32]
"""Hidden rows, float32, shape (positions, width)."""
KEPT = 1024
"""Positions whose rows are kept; no draft model reads more of a long text at once."""


class Tap:
    """Hidden rows of one target by position. Off, a target computes and copies none."""

    def __init__(self, target: LlamaModel, layers: Sequence[int] = ()) -> None:
        """Choose the rows: inputs of these layers of a target, or without any its last hidden row."""
        self._target = target
        self._layers = tuple(layers)
        self._copied = False
        self._part = target.row_width
        self.width = self._part * max(1, len(self._layers))
        self._kept: Rows = np.zeros((KEPT, self.width), np.float32)
        self._first = 0

    @property
    def first(self) -> int:
        """First position whose row is kept, if the target's text reaches it."""
        return self._first

    def take(self, context: Any, start: int, place: int, count: int) -> None:
        """Copy the rows of `count` tokens from position `start` on, which began at `place` of the pass just made."""
        # Only the last ones would be left.
        skipped = max(0, count - KEPT)
        rows = self.read(context, place + count)[place + skipped :]
        self._kept[np.arange(start + skipped, start + count) % KEPT] = rows
        self._first = max(min(self._first, start), start + count - KEPT)

    def skip(self, length: int) -> None:
        """Take note that the first `length` tokens of the text have no rows here."""
        self._first = length

    def rows(self, start: int, end: int) -> Rows:
        """Return the rows of positions `start` to `end`, zeros for those that are not kept; shape (end - start, width).

        Negative positions are before the text, where there is no row.
        """
        places = np.arange(start, end)
        found = self._kept[places % KEPT]
        found[(places < self._first) | (places >= self._target.length)] = 0
        return found

    def enable(self) -> None:
        """Let the target's context compute the rows from now on; raises LocalspecError for an engine that can't."""
        _, context, _ = self._target.handles
        self._first = self._target.length
        self._copied = bool(self._layers) and {*self._layers} <= {*self._target.options.layers}
        if not self._layers:
            hidden_function("llama_set_embeddings_nextn")(context, True, False)
            hidden_function("llama_get_embeddings_nextn")
        for layer in () if self._copied else self._layers:
            hidden_function("llama_set_embeddings_layer_inp")(context, layer, True)

    def read(self, context: Any, count: int) -> Rows:
        """Return the rows of the first `count` tokens of the last pass of a context, which the next one overwrites."""
        if self._copied and (copies := self._target.layer_rows) is not None:
            return copies.rows(count, self._layers)
        if not self._layers:
            return self._view(hidden_function("llama_get_embeddings_nextn")(context), count)
        read = hidden_function("llama_get_embeddings_layer_inp")
        return np.concatenate([self._view(read(context, layer), count) for layer in self._layers], axis=1)

    def _view(self, pointer: Any, count: int) -> Rows:
        return np.ctypeslib.as_array(pointer, shape=(count, self._part))
