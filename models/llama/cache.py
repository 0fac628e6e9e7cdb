"""Context of llama.cpp, shared by several texts in its cache, so that one pass can serve several of them."""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.abort import AbortFlag
from models.base import LanguageModel, Logits, RewindSupport
from models.errors import Cancelled, LocalspecError, context_full
from models.layer_rows import LayerRows
from models.llama.batch import GUEST, MAX_BRANCHES, Batch, Guests, padding
from models.llama.bindings import llama_cpp, recent_errors
from models.llama.context import new_context, padding_room, takes_guests
from models.llama.load import LlamaOptions, threads_of
from models.system.free_cores import Cores
from models.system.machine import available_memory

_BLOCK = 256
"""Cells that a pass attends to more or fewer: all up to the last that is taken, rounded up."""
_ABORTED = 2
_NO_ROOM = 1
_BLOCK_OF_STATE = 512
"""Most tokens of a part of a state: a chat writes one part again after an answer, and all others once."""
State = NDArray[np.uint8]
"""What a cache holds for some tokens, in llama.cpp's own form; bytes, of one dimension."""


class Threads:
    """Threads of one context; fewer while other programs hold cores, once `free` is set.

    A pass waits for its slowest thread at each of some hundred barriers, so a thread without a core of its own costs
    more than it computes. Set `free` only where sums do not depend on the number of threads.
    """

    def __init__(self, context: Any, threads: int, batch_threads: int) -> None:
        """Take the threads of one-token and of wider passes, which the context has by now."""
        self._api = llama_cpp()
        self._context = context
        self._most = self._now = threads, batch_threads
        self.free: Cores | None = None

    def use(self, threads: int, batch_threads: int) -> None:
        """Use at most so many threads for one-token and for wider passes."""
        self._most = threads, batch_threads
        self._set(self._most)

    def adapt(self) -> None:
        """Use as many threads in the next pass as cores are free."""
        if self.free is not None:
            count = self.free.count()
            self._set((min(self._most[0], count), min(self._most[1], count)))

    def _set(self, counts: tuple[int, int]) -> None:
        if counts != self._now:
            self._now = counts
            self._api.llama_set_n_threads(self._context, *counts)


class Cache:
    """A context, its batch, and the models that have a text in it; freed with the last of them."""

    def __init__(self, weights: Any, options: LlamaOptions, abort: AbortFlag, path: Path) -> None:
        """Open a context over loaded weights; raises MemoryLimitError or LocalspecError."""
        self._api = llama_cpp()
        width = self._api.llama_model_n_embd(weights)
        self.layer_rows = LayerRows(options.layers, width) if options.layers else None
        """Copies of the inputs of some layers; None: no pass makes any."""
        self.context, texts = new_context(weights, options, abort, path, self.layer_rows)
        self.memory = self._api.llama_get_memory(self.context)
        self.threads = Threads(self.context, *threads_of(options))
        self.rewind_support = _rewind_support(weights, self.context)
        self.max_branches = MAX_BRANCHES if takes_guests(weights, texts) else 0
        self.multiple = options.pad_rows if self.max_branches else 1
        room = padding_room(self.multiple)
        self.context_size: int = (self._api.llama_n_ctx(self.context) - room.cells) // texts
        self.batch_size: int = self._api.llama_n_batch(self.context) - room.tokens
        self.batch = Batch(self.batch_size + room.tokens)
        if self.layer_rows is not None:
            self.layer_rows.make_room(self.batch_size + room.tokens)
        self.guests = Guests(self.context)
        self.state_block = _state_block(self._api.llama_model_n_swa(weights)) if self.max_branches else 0
        """Tokens of a part of a text's state; 0: only a whole text has one."""
        self._has_whole_states = bool(self.max_branches) or not self._api.llama_model_n_swa(weights)
        """Whether a state lacks nothing: llama.cpp leaves out what is beyond a sliding window."""
        self._free = list(range(texts))
        self._texts = texts
        self._row_types: dict[int, Any] = {}

    @property
    def has_room(self) -> bool:
        """True if another text can be begun."""
        return bool(self._free)

    def enter(self) -> int:
        """Begin a text; return its sequence."""
        return self._free.pop(0)

    def leave(self, sequence: int) -> None:
        """Forget a text; the context goes with the last."""
        self._free.append(sequence)
        if len(self._free) == self._texts:
            self._api.llama_free(self.context)
        else:
            self.clear(sequence)

    def clear(self, sequence: int) -> None:
        """Empty the cache of a text."""
        if self._texts == 1:
            self._api.llama_memory_clear(self.memory, False)
        else:
            self._api.llama_memory_seq_rm(self.memory, sequence, -1, -1)

    def cut(self, sequence: int, length: int) -> bool:
        """Cut a text to its first `length` tokens; tell whether its memory can go back so far."""
        return bool(self._api.llama_memory_seq_rm(self.memory, sequence, length, -1))

    def even_width(self, length: int) -> int:
        """Return the most tokens after so many that attend to as many cells in one padded pass as in one each.

        A GPU may split its sums by that number, masked cells included. Where passes are not padded any width will do.
        """
        return -(length + self.multiple) % _BLOCK + 1 if self.multiple > 1 else self.batch_size

    def pad(self, rows: int) -> None:
        """Fill up the pass that is in the batch, and its rows, where kernels want it."""
        self.batch.pad(*padding(self.batch.struct.n_tokens, rows, self.multiple))

    def takes_state(self, length: int) -> bool:
        """Return whether a state can be appended to a text of so many tokens."""
        return self._has_whole_states and (self.state_block > 0 or length == 0)

    def state(self, sequence: int, part: tuple[int, int], length: int) -> State | None:
        """Copy what the cache holds for a part of a text of so many tokens; None where it lacks something, or room."""
        if not self._has_whole_states or not (self.state_block or part == (0, length)):
            return None
        with self._only(sequence, part) as source:
            size = self._api.llama_state_seq_get_size(self.context, source)
            if size > available_memory() // 2:
                return None
            state = np.empty(size, np.uint8)
            if self._api.llama_state_seq_get_data(self.context, _pointer(state), len(state), source) != len(state):
                raise LocalspecError("llama.cpp refused to copy what its cache holds.", cause=recent_errors())
        return state

    def add_state(self, sequence: int, state: State) -> bool:
        """Append what `state` has copied to a text, or put it into an empty one; tell whether llama.cpp took it."""
        target = GUEST if self.max_branches else sequence
        if not self._api.llama_state_seq_set_data(self.context, _pointer(state), len(state), target):
            return False
        if target != sequence:
            self._api.llama_memory_seq_cp(self.memory, target, sequence, -1, -1)
            self.guests.turn_out(0)
        return True

    @contextmanager
    def _only(self, sequence: int, part: tuple[int, int]) -> Iterator[int]:
        """Give a sequence that has a part of a text alone, for a moment."""
        if not self.max_branches:
            yield sequence
            return
        self._api.llama_memory_seq_cp(self.memory, sequence, GUEST, *part)
        try:
            yield GUEST
        finally:
            self.guests.turn_out(0)

    def check_pass(self, count: int, rows: int, most_rows: int, length: int) -> None:
        """Mirror llama.cpp's assertions about a pass over `count` tokens after `length`; raises ValueError."""
        if not 1 <= count <= self.batch_size:
            raise ValueError(f"{count} tokens in one pass; 1 to {self.batch_size} fit")
        if not 0 <= rows <= min(count, most_rows):
            raise ValueError(f"{rows} rows asked of {count} tokens; at most {most_rows} can be had")
        if length + count > self.context_size:
            raise context_full(length + count, self.context_size)

    def rows(self, first: int, rows: int, width: int) -> Logits:
        """View llama.cpp's own buffer of logits: nothing is copied, and the next decode overwrites it."""
        if rows == 0:
            return np.empty((0, width), np.float32)
        pointer = self._api.llama_get_logits(self.context)
        kind = self._row_types.setdefault(rows, ctypes.c_float * (rows * width))
        address = ctypes.addressof(pointer.contents) + first * width * np.dtype(np.float32).itemsize
        return np.ndarray((rows, width), np.float32, kind.from_address(address))

    def run(self) -> int:
        """Do the pass that is in the batch; return llama.cpp's code, 0 where all is well."""
        self.threads.adapt()
        if self.layer_rows is not None:
            self.layer_rows.begin(self.batch.wanted)
        return int(self._api.llama_decode(self.context, self.batch.struct))


def decode_in_parts(model: LanguageModel, tokens: Sequence[int], rows: int, first: int) -> Logits:
    """Decode so few tokens that a draft may be among them, the `first` in a pass of their own: see `even_width`."""
    start, later = model.length, len(tokens) - first
    try:
        head = model.decode(tokens[:first], max(0, rows - later)).copy()
        return np.concatenate((head, model.decode(tokens[first:], min(rows, later))))
    except LocalspecError:
        if model.length > start:
            model.rewind(start)
        raise


def failure(code: int, name: str, length: int, count: int, cache: Cache) -> LocalspecError:
    """Return what became of a pass over `count` tokens, which would have made a text of so many: see `Cache.run`."""
    if code == _ABORTED:
        return Cancelled("Stopped.")
    if code == _NO_ROOM:
        return context_full(length, cache.context_size)
    return LocalspecError(
        f"{name}: llama.cpp could not decode {count} tokens (code {code}).",
        cause=recent_errors(),
        hint="The log file has more; `-ngl 0` or a smaller -c may help.",
    )


def _state_block(window: int) -> int:
    """Return the tokens of a part of a state: llama.cpp leaves out what its last token can't attend to."""
    return min(_BLOCK_OF_STATE, 1 << max(0, window // 2).bit_length() - 1) if window else _BLOCK_OF_STATE


def _pointer(state: State) -> Any:
    return state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


def _rewind_support(weights: Any, context: Any) -> RewindSupport:
    """Say how far this architecture's memory goes back, asking the context, which may have granted less."""
    api = llama_cpp()
    snapshots: int = api.llama_n_rs_seq(context)
    recurrent = api.llama_model_is_recurrent(weights)
    if recurrent or api.llama_model_is_hybrid(weights):
        kind = "recurrent" if recurrent else "hybrid"
        kept = f"{snapshots} snapshots" if snapshots else "no snapshots, so it can't go back"
        return RewindSupport(snapshots, f"{kind} memory with {kept}")
    window: int = api.llama_model_n_swa(weights)
    if window > 0:
        return RewindSupport(None, f"attention cache with a sliding window of {window}, kept whole")
    return RewindSupport(None, "attention cache")
