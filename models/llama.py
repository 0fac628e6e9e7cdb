"""LlamaModel: a GGUF model over llama.cpp's C functions. It owns the context, its cache, its batch and its threads.

The traps it keeps from the rest of localspec: a failed assertion in llama.cpp ends the process, so every condition is
checked here first; the address of the logits moves, so it is asked for after each decode; a wide pass uses the other
thread count; a rewind can be refused; a stopped pass leaves parts of itself in the cache.
"""

import ctypes
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from models.abort import AbortFlag
from models.base import Logits, RewindSupport
from models.bindings import llama_cpp, recent_errors
from models.errors import Cancelled, LocalspecError, context_full
from models.llama_batch import MAX_BRANCHES, TEXT, Batch, Guests, padding
from models.llama_load import LlamaOptions, cache_types, load_weights, new_context, padding_room
from models.llama_vocab import LlamaVocab
from models.tree import Tree, read_tree

_ABORTED = 2
_NO_ROOM = 1


class LlamaModel:
    """One GGUF model with one cache; see `models.base.LanguageModel`. Belongs to the thread that made it."""

    def __init__(
        self,
        path: Path,
        options: LlamaOptions | None = None,
        *,
        abort: AbortFlag | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        """Load the weights, reporting the fraction read; raises a LocalspecError that says why not, or Cancelled."""
        self._api = llama_cpp()
        self._context: Any = None
        self._abort = abort or AbortFlag()
        self.options = options or LlamaOptions()
        self.name = path.stem
        self.path = path
        self._model: Any = load_weights(path, self.options, self._abort, on_progress)
        self._users = [self]
        self._open_context()

    def _open_context(self) -> None:
        try:
            self._context = new_context(self._model, self.options, self._abort, self.path)
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        self._memory = self._api.llama_get_memory(self._context)
        self._length = 0
        self._undoable = 0
        self.vocab = LlamaVocab(self._model)
        self.cache_types = cache_types(self._model, self.options)
        self.rewind_support = self._memory_class()
        self.max_branches = MAX_BRANCHES if self.rewind_support.limit is None else 0
        self._multiple = self.options.pad_rows if self.max_branches else 1
        room = padding_room(self._multiple)
        self.context_size: int = self._api.llama_n_ctx(self._context) - room.cells
        self.batch_size: int = self._api.llama_n_batch(self._context) - room.tokens
        self.max_rows = self.options.max_rows
        self.description = self._describe()
        template: bytes | None = self._api.llama_model_chat_template(self._model, None)
        self.chat_template = template.decode("utf-8", errors="replace") if template else None
        self._row_types: dict[int, Any] = {}
        self._batch = Batch(self.batch_size + room.tokens)
        self._guests = Guests(self._context)

    @property
    def length(self) -> int:
        """Number of tokens in the cache."""
        return self._length

    @property
    def size_bytes(self) -> int:
        """Bytes of all weights."""
        return int(self._api.llama_model_size(self._model))

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        """Append tokens to the cache; return the logits after each of the last `rows`, shape (rows, vocab.size).

        Of a tree only the chain stays in the cache; see `models.base.LanguageModel`.
        """
        count = len(tokens)
        self._check(count, rows)
        tree = read_tree(parents, count, self.max_branches) if parents else None
        if self._abort.is_set:
            raise Cancelled("Stopped.")
        self._batch.fill(tokens, self._length, rows)
        if self._multiple > 1 or (tree is not None and tree.leaves):
            count -= self._run_with_guests(tree, count, rows)
        else:
            self._run(count)
        self._length += count
        # A recurrent memory goes back inside its last pass alone, and once: asked for more it obeys, and answers
        # garbage.
        self._undoable = min(count - 1, self.rewind_support.limit or 0)
        if rows == 0:
            # A GPU returns before it has finished; what asks for no rows is measured and cancelled by its return.
            self._api.llama_synchronize(self._context)
        return self._rows(rows)

    def rewind(self, length: int) -> None:
        """Cut the cache to its first `length` tokens."""
        self._check_open()
        if not self.can_rewind(length):
            raise LocalspecError(
                f"{self.name}: its memory can't go back from {self._length} tokens to {length}.",
                cause=self.rewind_support.reason,
                hint="Use --draft off with this model.",
            )
        if length == 0:
            self._clear()
        elif length < self._length:
            if not self._api.llama_memory_seq_rm(self._memory, TEXT, length, -1):
                raise LocalspecError(f"{self.name}: llama.cpp refused to go back to {length} of {self._length} tokens.")
            self._length = length
            self._undoable = 0

    def can_rewind(self, length: int) -> bool:
        """Tell whether `rewind(length)` would work now."""
        if length in (0, self._length):
            return True
        dropped = self._length - length
        bounded = self.rewind_support.limit is not None
        return 0 < length < self._length and (not bounded or dropped <= self._undoable)

    def stretch(self, cells: int) -> None:
        """Let passes attend to so many tokens though fewer were read: to the text, and to copies of its beginning.

        For looking at what llama.cpp does deep in a text without reading one. `length` stays; the copies go with
        `rewind(0)`. Raises ValueError for an empty cache, for fewer tokens than it holds or more than fit, and for a
        memory that takes no branches.
        """
        self._check_open()
        if not (0 < self._length <= cells <= self.context_size and self.max_branches):
            raise ValueError(f"a cache of {self._length} tokens can't be stretched to {cells}")
        self._guests.copy_text(self._length, cells - self._length)

    def use_threads(self, threads: int, batch_threads: int) -> None:
        """Take other numbers of threads, at least 1, for one-token and for wider passes; the cache stays."""
        self._check_open()
        self._api.llama_set_n_threads(self._context, threads, batch_threads)
        self.options = replace(self.options, threads=threads, batch_threads=batch_threads)

    def reopen(self, options: LlamaOptions) -> None:
        """Start over with an empty cache as these options say, over the weights as they are in memory.

        What is decided when weights are read (`gpu_layers`, `extra_buffers`) can't change. Raises as the constructor
        does, and is then closed.
        """
        self._check_open()
        self._free_context()
        kept = self.options
        self.options = replace(options, gpu_layers=kept.gpu_layers, extra_buffers=kept.extra_buffers)
        self._open_context()

    def twin(self) -> "LlamaModel":
        """Return another, empty cache over the same weights, which are freed with the last of them."""
        self._check_open()
        twin = copy(self)
        twin._context = None
        self._users.append(twin)
        twin._open_context()
        return twin

    def close(self) -> None:
        """Free the context, and the weights if nobody else uses them; calling it twice is fine."""
        self._free_context()
        if self._model is not None:
            self._users.remove(self)
            if not self._users:
                self._api.llama_model_free(self._model)
            self._model = None

    def _free_context(self) -> None:
        if self._context is not None:
            self._api.llama_free(self._context)
            self._context = None

    def _describe(self) -> str:
        buffer = ctypes.create_string_buffer(128)
        self._api.llama_model_desc(self._model, buffer, len(buffer))
        return buffer.value.decode("utf-8", errors="replace")

    def _memory_class(self) -> RewindSupport:
        """Say how far this architecture's memory goes back, asking the context, which may have granted less."""
        snapshots: int = self._api.llama_n_rs_seq(self._context)
        recurrent = self._api.llama_model_is_recurrent(self._model)
        if recurrent or self._api.llama_model_is_hybrid(self._model):
            kind = "recurrent" if recurrent else "hybrid"
            kept = f"{snapshots} snapshots" if snapshots else "no snapshots, so it can't go back"
            return RewindSupport(snapshots, f"{kind} memory with {kept}")
        window: int = self._api.llama_model_n_swa(self._model)
        if window > 0:
            return RewindSupport(None, f"attention cache with a sliding window of {window}, kept whole")
        return RewindSupport(None, "attention cache")

    def _check(self, count: int, rows: int) -> None:
        """Mirror llama.cpp's assertions, each of which would end the process."""
        self._check_open()
        if not 1 <= count <= self.batch_size:
            raise ValueError(f"{count} tokens in one pass; 1 to {self.batch_size} fit")
        if not 0 <= rows <= min(count, self.max_rows):
            raise ValueError(f"{rows} rows asked of {count} tokens; at most {self.max_rows} can be had")
        if self._length + count > self.context_size:
            raise context_full(self._length + count, self.context_size)

    def _check_open(self) -> None:
        if self._context is None:
            raise ValueError("the model is closed")

    def _run(self, count: int) -> None:
        code = self._api.llama_decode(self._context, self._batch.struct)
        if code != 0:
            self._fail(code, count)

    def _run_with_guests(self, tree: Tree | None, count: int, rows: int) -> int:
        """Run a pass with branches or padding, and leave the text alone in the cache; return the nodes that go."""
        branches = len(tree.leaves) if tree else 0
        try:
            if tree:
                self._guests.let_in(branches)
                self._batch.grow(tree)
            self._batch.pad(*padding(count, rows, self._multiple))
            self._run(count)
            self._guests.turn_out(branches)
        except BaseException:
            self._restore()
            raise
        finally:
            self._batch.forget_guests()
        return tree.off_chain if tree else 0

    def _fail(self, code: int, count: int) -> None:
        """Put the cache back to what it was before the pass, and say what happened."""
        self._restore()
        if code == _ABORTED:
            raise Cancelled("Stopped.")
        if code == _NO_ROOM:
            raise context_full(self._length + count, self.context_size)
        raise LocalspecError(
            f"{self.name}: llama.cpp could not decode {count} tokens (code {code}).",
            cause=recent_errors(),
            hint="The log file has more; `-ngl 0` or a smaller -c may help.",
        )

    def _restore(self) -> None:
        # A stopped pass leaves a recurrent state half changed, and no way back: start over.
        whole = self._length > 0 and self.rewind_support.limit is None
        if not (whole and self._api.llama_memory_seq_rm(self._memory, TEXT, self._length, -1)):
            self._clear()
        if self.max_branches:
            self._guests.turn_out(self.max_branches)

    def _clear(self) -> None:
        self._api.llama_memory_clear(self._memory, False)
        self._length = 0
        self._undoable = 0

    def _rows(self, rows: int) -> Logits:
        """View llama.cpp's own buffer: nothing is copied, and the next decode overwrites it."""
        shape = (rows, self.vocab.size)
        if rows == 0:
            return np.empty(shape, np.float32)
        pointer = self._api.llama_get_logits(self._context)
        kind = self._row_types.setdefault(rows, ctypes.c_float * (rows * self.vocab.size))
        return np.ndarray(shape, np.float32, kind.from_address(ctypes.addressof(pointer.contents)))
