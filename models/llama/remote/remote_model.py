"""RemoteModel, a target whose layers are on workers, held by a child process; its vocabulary is here.

A lost worker ends the child and so one answer; the next pass loads the model again.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.abort import AbortFlag
from models.base import LanguageModel, Logits, Part
from models.errors import Cancelled, LocalspecError
from models.gguf.file import check_file
from models.llama.bindings import llama_cpp
from models.llama.load import LlamaOptions
from models.llama.remote.child import Child, LostError
from models.llama.remote.messages import Order, Properties
from models.llama.vocab import LlamaVocab
from models.llama.weights.vocab_only import vocab_of
from models.llama.weights.workers import names_of, require_workers


class RemoteModel:
    """See `models.base.LanguageModel`. Belongs to the thread that made it."""

    def __init__(
        self,
        path: Path,
        options: LlamaOptions,
        *,
        abort: AbortFlag | None = None,
        on_progress: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Load a model over `options.placement.workers`; raises LocalspecError, or Cancelled."""
        require_workers()
        check_file(path)
        self.name, self.path = path.stem, path
        self._order, self._abort = Order(path, options), abort or AbortFlag()
        self._on_progress = on_progress
        self._length = 0
        self._child: Child | None = None
        self._vocab_model: Any = None
        self._load()
        self._vocab_model = vocab_of(path)
        self.vocab = LlamaVocab(self._vocab_model)

    @property
    def length(self) -> int:
        """Number of tokens in the cache; 0 after a worker was lost."""
        return self._length

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        """Append tokens to the cache; see `models.base.LanguageModel`. Raises LocalspecError for a lost worker."""
        if self._abort.is_set:
            raise Cancelled("Stopped.")
        before = self._length
        if self._child is None:
            if before:
                raise ValueError("the model is closed")
            self._load()
        logits: Logits = self._ask("decode", list(tokens), rows, list(parents))
        self._take_back_if_stopped(before)
        return np.asarray(logits, np.float32)

    def _take_back_if_stopped(self, before: int) -> None:
        """Undo a pass that was stopped while it ran: elsewhere no pass can be stopped half-way."""
        if self._abort.is_set:
            self._ask("rewind", before if self._ask("can_rewind", before) else 0)
            raise Cancelled("Stopped.")

    def rewind(self, length: int) -> None:
        """Cut the cache to its first `length` tokens."""
        if self._child is None:
            self._length = 0
            return
        self._ask("rewind", length)

    def can_rewind(self, length: int) -> bool:
        """Return whether `rewind(length)` would work now."""
        if length in (0, self._length):
            return True
        if self.rewind_support.limit is None:
            return 0 < length < self._length
        return self._child is not None and bool(self._ask("can_rewind", length))

    def stretch(self, cells: int) -> None:
        """Let passes attend to so many tokens though fewer were read; see `LlamaModel.stretch`."""
        self._ask("stretch", cells)

    def can_join(self, other: LanguageModel) -> bool:  # noqa: ARG002
        """Return False: the process holds one text."""
        return False

    def decode_together(self, parts: Sequence[Part]) -> list[Logits]:
        """Raise ValueError: no text is in the cache of another."""
        raise ValueError(f"{len(parts)} passes can't be one")

    def close(self) -> None:
        """End the child process and free the vocabulary; calling it twice is fine."""
        if self._child is not None:
            self._child.end()
            self._child = None
        if self._vocab_model is not None:
            llama_cpp().llama_model_free(self._vocab_model)
            self._vocab_model = None

    def _load(self) -> None:
        try:
            self._child = Child(self._order, self._abort)
            self._length = 0
            self._take(self._child.load(self._on_progress))
        except (LocalspecError, OSError) as error:
            if self._child is not None:
                self._child.end()
                self._child = None
            if isinstance(error, OSError):
                raise LocalspecError("A process for the model can't be started.", cause=str(error)) from error
            raise

    def _take(self, found: Properties) -> None:
        """Take over what the child says of the model."""
        self.description = f"{found.description}, over {names_of(self._order.options.placement.workers)}"
        self.options = found.options
        self.context_size, self.batch_size = found.context_size, found.batch_size
        self.max_rows, self.max_branches = found.max_rows, found.max_branches
        self.rewind_support = found.rewind_support
        self.chat_template: str | None = found.chat_template
        self.named_templates: Mapping[str, str] = found.named_templates
        self.trained, self.cache_types = found.trained, found.cache_types

    def _ask(self, name: str, *arguments: Any) -> Any:
        child = self._child
        assert child is not None
        try:
            result, self._length = child.ask(name, *arguments)
        except (LostError, Cancelled):
            # The cache went with the process.
            self._child, self._length = None, 0
            raise
        return result
