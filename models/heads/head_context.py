"""Context of llama.cpp for a draft head, which reads a hidden row beside each token."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.base import Logits
from models.errors import Cancelled, LocalspecError
from models.gguf.block_heads import BlockShape
from models.heads.symbols import hidden_function
from models.heads.tap import Rows
from models.llama.batch import TEXT, Batch
from models.llama.bindings import llama_cpp, recent_errors
from models.llama.cache import Threads
from models.llama.context import TYPE_IDS, abort_callback_of, flash_attention_of
from models.llama.load import threads_of
from models.llama.model import LlamaModel
from models.llama.screen import Screen

BATCH = 64
"""Tokens of one pass: some heads compute a row of logits for each, wanted or not."""
ROWS = 16
"""Most rows of logits of one pass."""
_ABORTED = 2


@dataclass(frozen=True, slots=True)
class HeadContextOptions:
    """What the context of a head needs to know of it."""

    name: str
    """Name for error messages."""
    is_mtp: bool
    """Whether the head is a layer of a whole model, which runs in a context of that kind."""
    width: int
    """Numbers of a hidden row that it reads beside a token."""
    vocabulary: int
    """Tokens of its output."""
    encoded: int = 0
    """Numbers of the rows that its encoder turns into such rows; 0: it has no encoder."""
    shares_cache: bool = False
    """Whether it reads its target's cache and writes none: each of its steps is at the end of the target's text."""
    crops_rows: bool = False
    """Whether it returns a hidden row for those tokens alone that have a row of logits."""
    chain: int = 1
    """Drafting layers, each for one place of a draft; 1: its one layer goes on from its own rows."""
    copies: bool = False
    """Whether the target's graph does not hand out the layers that it reads, so that passes have to copy them."""
    block: BlockShape | None = None
    """Shape of a head that drafts a block in one pass; None for one that drafts token by token."""


class HeadContext:
    """A head's context, cache and batches. Freed before its target's context, which it may read from."""

    def __init__(self, weights: Any, target: LlamaModel, options: HeadContextOptions, screen: Screen) -> None:
        """Open a context over loaded weights of a head; raises LocalspecError, as where memory is short.

        `screen` leaves rows of unlikely tokens out of its passes.
        """
        self._screen = screen
        self._api = llama_cpp()
        self._options = options
        self.size: int = target.context_size
        self._context = self._opened(weights, target)
        self._threads = Threads(self._context, *threads_of(target.options))
        self._threads.free = target.free_cores
        self._memory = self._api.llama_get_memory(self._context)
        block = options.block
        self._batch = Batch(BATCH, 0 if block else options.width)
        sections = block.sections if block else 1
        encoded = Batch(BATCH, options.encoded, has_tokens=False, sections=sections) if options.encoded else None
        self._encoder = encoded
        # Masked, llama.cpp would copy the first rows of a pass in place of those of its outputs, unless it computes
        # rows of outputs alone.
        masked = options.shares_cache or options.crops_rows
        if block is None or block.candidates:
            hidden_function("llama_set_embeddings_nextn")(self._context, True, masked)
        if block is not None:
            self._api.llama_set_causal_attn(self._context, block.causal)

    def _opened(self, weights: Any, target: LlamaModel) -> Any:
        params = self._api.llama_context_default_params()
        params.n_ctx = self.size + -self.size % 256
        params.n_batch = params.n_ubatch = BATCH
        params.n_outputs_max = ROWS if self._options.is_mtp else BATCH
        params.n_threads, params.n_threads_batch = threads_of(target.options)
        params.ctx_type = int(self._options.is_mtp)
        _, params.ctx_other, abort = target.handles
        params.abort_callback, params.abort_callback_data = abort_callback_of(abort)
        params.no_perf = True
        if self._options.shares_cache:
            _like_target(params, target)
        recent_errors()
        context = self._api.llama_init_from_model(weights, params)
        if not context:
            raise LocalspecError(
                f"{self._options.name}: its context can't be opened.",
                cause=recent_errors(),
                hint="A shorter context (-c) needs less memory. --draft suffix drafts without a head.",
            )
        return context

    def decode(self, tokens: list[int], start: int, hidden: Rows, rows: int) -> Logits:
        """Read tokens from position `start` on, with a hidden row each; return the logits of the last `rows`.

        A view of llama.cpp's memory, shape (rows, vocabulary). Raises Cancelled, with the cache as it was before.
        """
        # Other graphs than that of MTP compute a row for each token, of which llama.cpp hands out the first ones.
        computed = rows if self._options.is_mtp or self._options.shares_cache or rows == 0 else len(tokens)
        self._batch.clear()
        self._batch.add(tokens, start, computed, TEXT)
        self._batch.hidden[: len(tokens)] = hidden
        self._run(self._api.llama_decode, self._batch, start)
        if rows == 0:
            return np.empty((0, self._options.vocabulary), np.float32)
        shape = (computed, self._options.vocabulary)
        return np.ctypeslib.as_array(self._api.llama_get_logits(self._context), shape=shape)[computed - rows :]

    def hidden_after(self, place: int) -> NDArray[np.float32]:
        """Return a copy of the head's own hidden row after the token at a place of the last pass, which had logits."""
        pointer = hidden_function("llama_get_embeddings_nextn_ith")(self._context, place)
        return np.ctypeslib.as_array(pointer, shape=(self._options.width,)).copy()

    def use_layer(self, layer: int) -> None:
        """Let a drafting layer of several, counted from 0, do the passes to come."""
        hidden_function("llama_set_nextn_layer_offset")(self._context, layer)

    def inject(self, rows: Rows, start: int) -> None:
        """Put rows of the target's layers, shape (rows, encoded), into the cache, from position `start` on.

        Raises Cancelled, with the cache as it was before.
        """
        batch = self._encoder
        assert batch is not None, "a head that drafts blocks reads layers"
        for first in range(0, len(rows), BATCH):
            part = rows[first : first + BATCH]
            batch.clear()
            batch.add([0] * len(part), start + first, 0, TEXT)
            batch.repeat_positions()
            batch.hidden[: len(part)] = part
            self._run(self._api.llama_decode, batch, start)

    def block(self, tokens: list[int], start: int) -> NDArray[np.float32]:
        """Do the pass of a block, which leaves nothing in the cache; return what it has for each of its tokens.

        A view of llama.cpp's memory: rows of logits, shape (tokens, vocabulary); for a head with a selector its
        candidates and their scores, shape (tokens, width). Raises Cancelled.
        """
        assert self._options.block is not None, "only such heads draft blocks"
        candidates = self._options.block.candidates
        self._batch.clear()
        self._batch.add(tokens, start, 0 if candidates else len(tokens), TEXT)
        self._run(self._api.llama_decode, self._batch, start)
        self.cut(start)
        if candidates:
            pointer, width = hidden_function("llama_get_embeddings_nextn")(self._context), self._options.width
        else:
            pointer, width = self._api.llama_get_logits(self._context), self._options.vocabulary
        return np.ctypeslib.as_array(pointer, shape=(len(tokens), width))

    def encode(self, rows: Rows) -> Rows:
        """Turn rows of a target's layers into rows that the head reads beside tokens; shape (rows, width)."""
        if self._encoder is None:
            return rows
        parts = [self._encoded(self._encoder, rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
        return np.concatenate(parts) if parts else np.empty((0, self._options.width), np.float32)

    def _encoded(self, batch: Batch, rows: Rows) -> Rows:
        # The encoder keeps nothing, but its positions must go on from those of the cache.
        start = self._api.llama_memory_seq_pos_max(self._memory, TEXT) + 1
        batch.clear()
        batch.add([0] * len(rows), start, len(rows), TEXT)
        batch.hidden[: len(rows)] = rows
        self._run(self._api.llama_encode, batch, start)
        pointer = hidden_function("llama_get_embeddings_nextn")(self._context)
        return np.ctypeslib.as_array(pointer, shape=(len(rows), self._options.width)).copy()

    def cut(self, start: int, end: int = -1) -> None:
        """Forget the tokens from position `start` to before `end`; -1: to the last."""
        self._api.llama_memory_seq_rm(self._memory, TEXT, start, end)

    def _run(self, function: Any, batch: Batch, start: int) -> None:
        self._threads.adapt()
        with self._screen:
            code = function(self._context, batch.struct)
        if code == 0:
            return
        self.cut(start)
        if code == _ABORTED:
            raise Cancelled("Stopped.")
        raise LocalspecError(
            f"{self._options.name}: llama.cpp could not run it (code {code}).", cause=recent_errors(), hint=""
        )

    def close(self) -> None:
        """Free the context; calling it twice is fine."""
        if self._context is not None:
            self._api.llama_free(self._context)
            self._context = None


def _like_target(params: Any, target: LlamaModel) -> None:
    """Lay a cache out as the target's is, whose cells it views."""
    api, (_, context, _) = llama_cpp(), target.handles
    params.n_ctx, params.n_seq_max = api.llama_n_ctx(context), api.llama_n_seq_max(context)
    params.kv_unified = params.n_seq_max > 1
    params.n_outputs_max = max(BATCH, params.n_seq_max)
    params.flash_attn_type = flash_attention_of(target.options)
    params.type_k, params.type_v = (TYPE_IDS[kind] for kind in target.cache_types)
