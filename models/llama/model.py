"""LlamaModel, a GGUF model over llama.cpp's C functions. It owns the context, its cache, its batch and its threads.

The traps it keeps from the rest of localspec: a failed assertion in llama.cpp ends the process, so every condition is
checked here first; the address of the logits moves, so it is asked for after each decode; a wide pass uses the other
thread count; a rewind can be refused; a stopped pass leaves parts of itself in the cache.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from models.abort import AbortFlag
from models.base import LanguageModel, Logits, Part
from models.errors import Cancelled, LocalspecError
from models.layer_rows import LayerRows
from models.listeners import Listeners
from models.llama.bindings import llama_cpp
from models.llama.cache import Cache, State, decode_in_parts, failure
from models.llama.context import cache_types
from models.llama.load import (
    LlamaOptions,
    description_of,
    has_gpu,
    load_weights,
    screen_of,
    templates_of,
    with_layout,
)
from models.llama.vocab import LlamaVocab
from models.llama.weights.adapters import LoadedAdapters
from models.system.free_cores import Cores, free_cores
from models.tree import Tree, read_tree


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
        self._cache: Cache | None = None
        self._abort = abort or AbortFlag()
        self.options = with_layout(path, options or LlamaOptions())
        self.name = path.stem
        self.path = path
        self._model: Any = load_weights(path, self.options, self._abort, on_progress)
        self.screen = screen_of(self._model, self.options)
        self._users = [self]
        self.listeners = Listeners()
        self.free_cores: Cores | None = None
        """Cores that passes keep to while other programs hold some; None: passes use all threads."""
        try:
            # Before the first context, whose graphs have room for them.
            self._adapters = LoadedAdapters(self._model, self.options.adapters, path)
        except BaseException:
            self.close()
            raise
        self._open_context()

    def _open_context(self) -> None:
        try:
            self._cache = Cache(self._model, self.options, self._abort, self.path)
            self._cache.threads.free = self.free_cores
            self._adapters.apply(self._cache.context)
            self._enter(self._cache)
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _enter(self, cache: Cache) -> None:
        """Begin a text in a cache."""
        self._cache, self._text = cache, cache.enter()
        self._length = self._undoable = self._copied = 0

    def _set_up(self) -> None:
        cache = self._check_open()
        self.vocab = LlamaVocab(self._model)
        self.cache_types = cache_types(self._model, self.options)
        self.rewind_support = cache.rewind_support
        self.max_branches = cache.max_branches
        self.context_size, self.batch_size = cache.context_size, cache.batch_size
        self.trained = int(self._api.llama_model_n_ctx_train(self._model))
        self.max_rows = self.options.max_rows
        self.description = description_of(self._model) + self._adapters.words
        self.chat_template, self.named_templates = templates_of(self._model)

    @property
    def length(self) -> int:
        """Number of tokens in the cache."""
        return self._length

    @property
    def size_bytes(self) -> int:
        """Bytes of all weights."""
        return int(self._api.llama_model_size(self._model))

    @property
    def row_width(self) -> int:
        """Numbers in a hidden row."""
        return int(self._api.llama_model_n_embd_out(self._model))

    @property
    def layer_rows(self) -> LayerRows | None:
        """Inputs of some layers in the last pass (`LlamaOptions.layers`); None: no pass copies any."""
        return self._check_open().layer_rows

    @property
    def handles(self) -> tuple[Any, Any, AbortFlag]:
        """llama.cpp's model and context, which `reopen` replaces, and the flag that stops passes: for draft heads."""
        return self._model, self._check_open().context, self._abort

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        """Append tokens to the cache; return the logits after each of the last `rows`, shape (rows, vocab.size).

        Of a tree only the chain stays in the cache; see `models.base.LanguageModel`.
        """
        count = len(tokens)
        cache = self._check(count, rows)
        tree = read_tree(parents, count, self.max_branches) if parents else None
        if self._abort.is_set:
            raise Cancelled("Stopped.")
        even = cache.even_width(self._length + self._copied)
        if even < count <= self.max_rows and tree is None:
            return decode_in_parts(self, tokens, rows, even)
        cache.batch.clear()
        cache.batch.add(tokens, self._length, rows, self._text)
        self._run(tree, rows)
        self._grow(count - (tree.off_chain if tree else 0), 0)
        if rows == 0:
            # A GPU returns before it has finished; what asks for no rows is measured and cancelled by its return.
            self._api.llama_synchronize(cache.context)
        return cache.rows(0, rows, self.vocab.size)

    def decode_together(self, parts: Sequence[Part]) -> list[Logits]:
        """Do the passes of several texts of this cache as one; see `models.base.Companion`."""
        cache, texts = self._check_open(), [self._companion(part.model) for part in parts]
        for text in texts:
            text._check(1, 1)
        if len(set(map(id, texts))) < len(texts) or len(texts) > self.max_rows:
            raise ValueError(f"{len(texts)} passes can't be one")
        if self._abort.is_set:
            raise Cancelled("Stopped.")
        cache.batch.clear()
        # llama.cpp takes neighbours together, in the order of their places.
        for text, part in sorted(zip(texts, parts, strict=True), key=lambda pair: pair[0]._text):
            cache.batch.add([part.token], text._length, 1, text._text)
        self._run(None, len(texts), texts)
        places = sorted(text._text for text in texts)
        for text in texts:
            text._grow(1, places.index(text._text))
        return [cache.rows(places.index(text._text), 1, self.vocab.size) for text in texts]

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
            if not self._check_open().cut(self._text, length):
                raise LocalspecError(f"{self.name}: llama.cpp refused to go back to {length} of {self._length} tokens.")
            self._length = length
            self._undoable = 0

    def can_rewind(self, length: int) -> bool:
        """Return whether `rewind(length)` would work now."""
        if length in (0, self._length):
            return True
        dropped = self._length - length
        bounded = self.rewind_support.limit is not None
        return 0 < length < self._length and (not bounded or dropped <= self._undoable)

    @property
    def state_block(self) -> int:
        """Tokens of a part of the text that has a state of its own; 0: only the whole text has one."""
        return self._check_open().state_block

    def state(self, start: int, end: int) -> State | None:
        """Copy what the cache holds for tokens `start` to before `end`; None where that would lack something."""
        return self._check_open().state(self._text, (start, end), self._length)

    def add_state(self, state: State, count: int) -> bool:
        """Append `count` tokens as `state` copied them, from this place of a like model; tell whether that worked.

        Nothing is computed, so listeners miss the tokens' rows. A text that has no parts has to be empty.
        """
        cache = self._check_open()
        if self._length + count > self.context_size or not cache.takes_state(self._length):
            return False
        if not cache.add_state(self._text, state):
            self._restore()
            return False
        self._length, self._undoable = self._length + count, 0
        self.listeners.skip(self._length)
        return True

    def stretch(self, cells: int) -> None:
        """Let passes attend to so many tokens though fewer were read: to the text, and to copies of its beginning.

        For looking at what llama.cpp does deep in a text without reading one. `length` stays; the copies go with
        `rewind(0)`. Raises ValueError for an empty cache, for fewer tokens than it holds or more than fit, and for a
        memory that takes no branches.
        """
        self._check_open()
        if not (0 < self._length <= cells <= self.context_size and self.max_branches):
            raise ValueError(f"a cache of {self._length} tokens can't be stretched to {cells}")
        self._check_open().guests.copy_text(self._length, cells - self._length)
        self._copied += cells - self._length

    def use_threads(self, threads: int, batch_threads: int) -> None:
        """Take other numbers of threads, at least 1, for one-token and for wider passes; the cache stays."""
        self._check_open().threads.use(threads, batch_threads)
        self.options = replace(self.options, threads=threads, batch_threads=batch_threads)

    def follow_free_cores(self, on_battery: int | None = None) -> None:
        """Use fewer threads from now on while other programs hold cores, and at most `on_battery` without mains.

        For sums that do not depend on threads. On a GPU, and where the system does not tell which cores are free,
        nothing changes.
        """
        self.free_cores = None if has_gpu(self.options) else free_cores(on_battery)
        self._check_open().threads.free = self.free_cores

    def reopen(self, options: LlamaOptions) -> None:
        """Start over with an empty cache as these options say, over the weights as they are in memory.

        What is decided when weights are read can't change: their devices, their layout, their adapters. Raises as the
        constructor does, and is then closed.
        """
        self._check_open()
        with self.listeners.between_contexts():
            self._leave()
            kept = self.options
            self.options = replace(
                options,
                gpu_layers=kept.gpu_layers,
                extra_buffers=kept.extra_buffers,
                placement=kept.placement,
                adapters=kept.adapters,
                layers=options.layers or kept.layers,
            )
            self._open_context()

    def twin(self) -> "LlamaModel":
        """Return another, empty text over the same weights, which are freed with the last of them.

        It is in the same cache, if that has room (`LlamaOptions.texts`), and then `can_join` this one; else it gets a
        cache of its own.
        """
        cache = self._check_open()
        twin = copy(self)
        twin._cache, twin.listeners = None, Listeners()
        self._users.append(twin)
        if cache.has_room:
            twin._enter(cache)
        else:
            twin.options = replace(self.options, texts=1)
            twin._open_context()
        return twin

    def can_join(self, other: LanguageModel) -> bool:
        """Return whether both are texts of one cache, and neighbours there: llama.cpp decodes only those in one go."""
        cache = self._check_open()
        return isinstance(other, LlamaModel) and other._cache is cache and abs(other._text - self._text) == 1

    def close(self) -> None:
        """Free the cache and the weights, each if no other model uses it; calling it twice is fine."""
        self._leave()
        if self._model is not None:
            self._users.remove(self)
            if not self._users:
                self.screen.close()
                self._api.llama_model_free(self._model)
            self._model = None

    def _leave(self) -> None:
        if self._cache is not None:
            self._cache.leave(self._text)
            self._cache = None

    def _check(self, count: int, rows: int) -> Cache:
        """Mirror llama.cpp's assertions, each of which would end the process; return the cache."""
        cache = self._check_open()
        cache.check_pass(count, rows, self.max_rows, self._length)
        return cache

    def _check_open(self) -> Cache:
        """Return the cache; raises ValueError once it is closed."""
        if self._cache is None:
            raise ValueError("the model is closed")
        return self._cache

    def _companion(self, other: LanguageModel) -> "LlamaModel":
        if not isinstance(other, LlamaModel) or other._cache is not self._cache:
            raise ValueError(f"{other.name} has no text in this cache")
        return other

    def _run(self, tree: Tree | None, rows: int, texts: Sequence["LlamaModel"] = ()) -> None:
        """Do the pass that is in the batch, with its branches or padding; leave the texts alone in the cache."""
        cache = self._check_open()
        count = cache.batch.struct.n_tokens
        branches = len(tree.leaves) if tree else 0
        with_guests = branches > 0 or cache.multiple > 1
        try:
            if tree and branches:
                cache.guests.let_in(branches)
                cache.batch.grow(tree)
            cache.pad(rows)
            with self.screen:
                code = cache.run()
            if code != 0:
                raise failure(code, self.name, self._length + count, count, cache)
            if with_guests:
                cache.guests.turn_out(branches)
        except BaseException:
            for text in texts or (self,):
                text._restore()
            raise

    def _grow(self, count: int, place: int) -> None:
        """Take note of the tokens that a pass has appended, which began at a place of it."""
        self.listeners.take(self._check_open().context, self._length, place, count)
        self._length += count
        # A recurrent memory goes back inside its last pass alone, and once: asked for more it obeys, and answers
        # garbage.
        self._undoable = min(count - 1, self.rewind_support.limit or 0)

    def _restore(self) -> None:
        """Put the cache back to what it was before the pass."""
        # A stopped pass leaves a recurrent state half changed, and no way back: start over.
        whole = self._length > 0 and self.rewind_support.limit is None
        if not (whole and self._check_open().cut(self._text, self._length)):
            self._clear()
        if self.max_branches:
            self._check_open().guests.turn_out(self.max_branches)

    def _clear(self) -> None:
        self._check_open().clear(self._text)
        self._length = self._undoable = self._copied = 0
