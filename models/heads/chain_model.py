"""ChainModel, drafting layers in a chain: the first predicts the first draft token, the next one the second, and so on.

Each layer has a cache of its own in the same cells, and reads whole texts: confirmed tokens beside the target's rows,
then draft tokens, each beside the row that the layer before returned. So a step of a later layer reads all draft tokens
before it, and what has been confirmed since that layer last ran. A cell that is taken again for the same place keeps
what other layers have in it.

Source: MTP in a chain, as Step-3.5, MiMo and Hunyuan 3 have it, after DeepSeek-V3 (arXiv 2412.19437, 2.2).
"""

from collections.abc import Sequence

import numpy as np

from models.base import Logits
from models.heads.head_context import BATCH
from models.heads.head_model import HeadModel
from models.heads.loaded_head import LoadedHead
from models.heads.tap import Rows
from models.llama.model import LlamaModel


class ChainModel(HeadModel):
    """Drafting layers in a chain, for one target; see `HeadModel`."""

    def __init__(self, head: LoadedHead, target: LlamaModel) -> None:
        """Join loaded layers to a target whose cache is empty; raises LocalspecError where the engine can't."""
        super().__init__(head, target)
        self.longest = head.options.chain

    def join_context(self) -> None:
        """Open a context beside the target's, with an empty cache."""
        super().join_context()
        self._tokens: list[int] = []
        self._read = [0] * self.head.options.chain
        """For each layer, the number of tokens that it has read."""
        self._returned: list[Rows] = []
        """The row that each layer returned after the last token of its step."""

    def rewind(self, length: int) -> None:
        """Cut the cache to its first `length` tokens."""
        super().rewind(length)
        self._forget(length)

    def _forget(self, length: int) -> None:
        del self._tokens[length:]
        self._read = [min(read, length) for read in self._read]
        del self._returned[max(0, length - self._confirmed + 1) :]

    @property
    def _confirmed(self) -> int:
        """Number of tokens up to the pending one: those after it are draft tokens."""
        return max(0, self.target.length + 1 - self.first_place)

    def _pass(self, tokens: Sequence[int], rows: int) -> Logits:
        start = self._length
        layer = max(0, start + len(tokens) - self._confirmed) if self.target.length else 0
        if layer >= self.longest:
            raise ValueError(f"draft token {layer + 1} of {self.longest} layers")
        self._tokens += tokens
        self._length += len(tokens)
        try:
            logits = self._run_layer(layer, rows)
        except BaseException:
            # A stopped pass takes the cells of its tokens with it, for all layers.
            self._length = start
            del self._tokens[start:]
            self._read = [min(read, self._read[layer]) for read in self._read]
            raise
        return logits

    def _run_layer(self, layer: int, rows: int) -> Logits:
        """Let a layer read all that it has not read; return the last `rows` rows of logits."""
        context, logits = self._open, np.empty((0, self.vocab.size), np.float32)
        begun = self._read[layer]
        context.use_layer(layer)
        context.cut(begun)
        last = max(begun, self._length - BATCH)
        for start in [*range(begun, last, BATCH), last]:
            end = min(start + BATCH, last) if start < last else self._length
            tokens = self._tokens[start:end]
            logits = context.decode(tokens, start, self._rows_beside(start, end), rows if end == self._length else 0)
            self._read[layer] = end
        if rows:
            del self._returned[layer:]
            self._returned.append(context.hidden_after(self._length - last - 1)[None])
        return logits

    def _rows_beside(self, start: int, end: int) -> Rows:
        """Return the rows beside the tokens from place `start` to before `end` of the cache, shape (count, width)."""
        before, known = self.first_place + start - 1, end
        if self.target.length:
            known = min(end, max(start, self._confirmed))
        rows = self._tap.rows(before, before + known - start)
        own = [self._returned[place - self._confirmed] for place in range(known, end)]
        return np.concatenate([rows, *own]) if own else rows
