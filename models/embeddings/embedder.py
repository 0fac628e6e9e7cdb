"""Embedder: a GGUF model that turns texts into vectors of length one."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.abort import AbortFlag
from models.embeddings.pooling import pass_sizes, pooling_of
from models.errors import LocalspecError, MemoryLimitError, UsageError
from models.llama.batch import Batch
from models.llama.bindings import llama_cpp, recent_errors
from models.llama.context import abort_callback_of
from models.llama.load import LlamaOptions, load_weights, threads_of, with_layout

Vector = NDArray[np.float32]
"""An embedding, float32, shape (width,), of length one."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """The vector of a text, and its length in tokens."""

    vector: Vector
    tokens: int


class Embedder:
    """A loaded model for embeddings. One thread at a time may use it; `close` frees it."""

    def __init__(self, path: Path, options: LlamaOptions) -> None:
        """Load a model; raises ModelFileError for one that is not made for embeddings, and MemoryLimitError."""
        pooling = pooling_of(path)
        self.name = path.stem
        self._api = llama_cpp()
        self._context: Any = None
        self._abort = AbortFlag()
        self.longest, width = pass_sizes(path, pooling)
        """Tokens of the longest text."""
        options = with_layout(path, options)
        self._model: Any = load_weights(path, options, self._abort, None)
        try:
            self._context = self._opened(options, width)
            self._batch = Batch(width)
        except BaseException:
            self.close()
            raise
        self._vocab = self._api.llama_model_get_vocab(self._model)
        self.vocabulary = int(self._api.llama_vocab_n_tokens(self._vocab))
        """Number of token ids."""
        self.width = int(self._api.llama_model_n_embd_out(self._model))
        """Numbers of a vector."""

    def _opened(self, options: LlamaOptions, width: int) -> Any:
        params = self._api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = self.longest, width, width
        params.n_seq_max, params.embeddings = 1, True
        params.n_threads, params.n_threads_batch = threads_of(options)
        params.abort_callback, params.abort_callback_data = abort_callback_of(self._abort)
        params.no_perf = True
        recent_errors()
        context = self._api.llama_init_from_model(self._model, params)
        if not context:
            raise MemoryLimitError(
                f"{self.name}: its context can't be opened.",
                cause=recent_errors(),
                hint="Close other programs, or use a smaller model.",
            )
        return context

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, with those that the vocabulary puts around it."""
        data = text.encode("utf-8", errors="replace")
        room = len(data) + 8
        ids = (ctypes.c_int32 * room)()
        count = self._api.llama_tokenize(self._vocab, data, len(data), ids, room, True, False)
        return list(ids[:count])

    def embed(self, tokens: Sequence[int]) -> Embedding:
        """Return the vector of a text; raises UsageError for none and for more than `longest` tokens."""
        if not 1 <= len(tokens) <= self.longest:
            raise UsageError(
                f"A text has {len(tokens):,} tokens; {self.name} takes from 1 to {self.longest:,}.",
                hint="Split it into parts.",
            )
        memory = self._api.llama_get_memory(self._context)
        if memory:
            self._api.llama_memory_clear(memory, False)
        for start in range(0, len(tokens), self._batch_size):
            self._read(tokens[start : start + self._batch_size], start)
        found = self._api.llama_get_embeddings_seq(self._context, 0)
        vector = np.ctypeslib.as_array(found, shape=(self.width,)).astype(np.float32)
        length = float(np.linalg.norm(vector))
        return Embedding(vector / np.float32(length or 1.0), len(tokens))

    @property
    def _batch_size(self) -> int:
        return int(self._api.llama_n_batch(self._context))

    def _read(self, tokens: Sequence[int], start: int) -> None:
        self._batch.clear()
        # Every token counts in the vector, so each is an output.
        self._batch.add(tokens, start, len(tokens), 0)
        code = self._api.llama_decode(self._context, self._batch.struct)
        if code != 0:
            raise LocalspecError(
                f"{self.name}: llama.cpp could not read a text (code {code}).", cause=recent_errors(), hint=""
            )

    def close(self) -> None:
        """Free the model; calling it twice is fine."""
        if self._context is not None:
            self._api.llama_free(self._context)
            self._context = None
        if self._model is not None:
            self._api.llama_model_free(self._model)
            self._model = None
