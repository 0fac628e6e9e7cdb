"""HeadModel, a draft head as a language model: it predicts what its target emits, from the target's hidden rows.

The token at place i is read beside the hidden row of place i - 1. Where the target has read that place, it is the
target's row; after its last one a head goes on from its own, which it returns beside each row of logits. So it drafts
token by token like a small model, and reads accepted tokens again with the target's true rows.

Sources: MTP (DeepSeek-V3, arXiv 2412.19437, 2.2), EAGLE-3 (Li et al. 2025, arXiv 2503.01840).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from models.base import Logits, RewindSupport, Vocab
from models.errors import Cancelled, context_full
from models.heads.copying import let_copy
from models.heads.head_context import BATCH, ROWS, HeadContext
from models.heads.loaded_head import LoadedHead
from models.heads.tap import Rows, Tap
from models.llama.model import LlamaModel


class HeadModel:
    """A head with one cache, for one target; see `models.base.LanguageModel`. Owns its context and its tap."""

    chat_template: str | None = None
    named_templates: Mapping[str, str] = {}
    max_branches = 0
    batch_size = BATCH
    longest: int = 1 << 30
    """Most tokens of a draft, where it does not go on as long as it pays."""
    rewind_support = RewindSupport(None, "attention cache")

    def __init__(self, head: LoadedHead, target: LlamaModel) -> None:
        """Join a loaded head to a target whose cache is empty; raises LocalspecError where the engine can't."""
        self.head = head
        self.name = head.name
        self.path = head.path
        self.description = head.description
        self.target = target
        self.vocab: Vocab = head.vocab
        self.first_place = 0
        """Place in the target's text of the first token that this model reads."""
        self.context_size = target.context_size
        self.max_rows = 1 if head.options.shares_cache else ROWS
        if head.options.copies:
            let_copy(target, head.layers)
        self._tap = Tap(target, head.layers)
        self._own: tuple[int, Rows] | None = None
        """The head's own last hidden row, and the place of the token that is read beside it."""
        self._context: HeadContext | None = None
        self.join_context()
        target.listeners.add(self)
        head.users += 1

    def take(self, context: Any, start: int, place: int, count: int) -> None:
        """Keep the target's rows of `count` tokens from position `start`, at `place` of the pass just made."""
        self._tap.take(context, start, place, count)

    def skip(self, length: int) -> None:
        """Take note that the target's first `length` tokens came without rows; a head begins after them."""
        self._tap.skip(length)

    def leave_context(self) -> None:
        """Free the head's context, before the target's is freed."""
        if self._context is not None:
            self._context.close()
            self._context = None

    def join_context(self) -> None:
        """Open a context beside the target's, with an empty cache; a shared one is emptied for that."""
        if self.head.options.shares_cache:
            # llama.cpp resets the cells of a cache that another context begins to view.
            self.target.rewind(0)
        self._tap.enable()
        self._context = HeadContext(self.head.weights, self.target, self.head.options, self.head.screen)
        self._length, self._own = 0, None

    @property
    def length(self) -> int:
        """Number of tokens in the cache."""
        return self._length

    @property
    def first_readable(self) -> int:
        """First place of the target's text whose token can be read: the row before it is kept, or it is the first."""
        return self._tap.first + 1 if self._tap.first else 0

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        """Append tokens to the cache; return the logits after each of the last `rows`, shape (rows, vocab.size).

        Tokens after the target's last one take a pass each. Rows that the tap has not kept count as zeros.
        """
        self._check(tokens, rows, parents)
        if self.target.handles[2].is_set:
            raise Cancelled("Stopped.")
        together = self._readable_together(len(tokens))
        if together == len(tokens):
            return self._pass(tokens, rows)
        later = len(tokens) - together
        # Each further token is read beside the head's own row after the one before, which comes with a row of logits.
        parts = [self._pass(tokens[:together], max(1, rows - later)).copy()]
        parts += [self._pass([token], 1).copy() for token in tokens[together:]]
        found = np.concatenate(parts)
        return found[len(found) - rows :]

    def rewind(self, length: int) -> None:
        """Cut the cache to its first `length` tokens."""
        if not 0 <= length <= self._length:
            raise ValueError(f"a cache of {self._length} tokens can't be rewound to {length}")
        if length < self._length:
            self._open.cut(length)
            self._length, self._own = length, None

    def can_rewind(self, length: int) -> bool:
        """Return whether `rewind(length)` would work now."""
        return 0 <= length <= self._length

    def beside(self, target: LlamaModel) -> Self:
        """Return this head for another text of its target's weights."""
        return type(self)(self.head, target)

    def close(self) -> None:
        """Free the context, and the weights if no other model uses them; calling it twice is fine."""
        if self._context is not None:
            self.target.listeners.remove(self)
            self.leave_context()
            self.head.leave()

    @property
    def _open(self) -> HeadContext:
        """The context; raises ValueError once it is closed."""
        if self._context is None:
            raise ValueError("the head is closed")
        return self._context

    def _check(self, tokens: Sequence[int], rows: int, parents: Sequence[int]) -> None:
        if parents:
            raise ValueError("a draft head reads no trees")
        if not 1 <= len(tokens) <= self.batch_size:
            raise ValueError(f"{len(tokens)} tokens in one pass; 1 to {self.batch_size} fit")
        if not 0 <= rows <= min(len(tokens), self.max_rows):
            raise ValueError(f"{rows} rows asked of {len(tokens)} tokens; at most {self.max_rows} can be had")
        if self._length + len(tokens) > self.context_size:
            raise context_full(self._length + len(tokens), self.context_size)

    def _readable_together(self, count: int) -> int:
        """Return how many of the next tokens one pass can read: those beside a known row, and one more."""
        if self.target.length == 0:
            return count
        known = self.target.length + 1 - self.first_place - self._length
        return max(1, min(count, known))

    def _pass(self, tokens: Sequence[int], rows: int) -> Logits:
        if self.head.options.shares_cache:
            return self._step(tokens, rows)
        start, context = self._length, self._open
        logits = context.decode(list(tokens), start, self._hidden(len(tokens)), rows)
        if start == 0 and self.first_place == 0 and self.head.starts_at_second:
            context.cut(0, 1)
        self._length += len(tokens)
        self._own = (self._length, context.hidden_after(len(tokens) - 1)) if rows else None
        return logits

    def _step(self, tokens: Sequence[int], rows: int) -> Logits:
        """Compute the row after the last token alone: for those before it there is the target's cache."""
        self._length += len(tokens) - rows
        if rows == 0:
            self._own = None
            return np.empty((0, self.vocab.size), np.float32)
        logits = self._open.decode([tokens[-1]], self.target.length, self._hidden(1), 1)
        self._length += 1
        self._own = self._length, self._open.hidden_after(0)
        return logits

    def _hidden(self, count: int) -> Rows:
        """Return the rows to read beside the next tokens, shape (count, width)."""
        before = self.first_place + self._length - 1
        if self._own is not None and before >= self.target.length and self._own[0] == self._length:
            return self._own[1][None]
        return self._open.encode(self._tap.rows(before, before + count))
