"""Protocols of a language model and its vocabulary: tokens in, one row of logits a token out.

A model owns one sequence of tokens, its cache. `decode` appends to it and `rewind` cuts it; nothing else changes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
"""Raw scores, float32, shape (rows, vocabulary size); a view that is valid until the next `decode`."""


@dataclass(frozen=True, slots=True)
class RewindSupport:
    """Limit of a model's rewinding: how far its memory can be cut back."""

    limit: int | None
    """Tokens that a rewind may drop after a decode; None: any number; 0: none at all."""
    reason: str
    """One clause for the user, such as "attention cache" or "recurrent state, no rollback"."""


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that a tokenizer finds by its spelling, before it splits the rest of a text."""

    token: int
    spelling: str
    is_control: bool
    """True if it is ordinary text unless special tokens are enabled; the others are found in any text."""
    is_unknown: bool = False
    """True if it also stands for text that the vocabulary can't spell."""


class Vocab(Protocol):
    """The tokens of a model: ids, bytes and roles."""

    size: int
    """Number of rows of the output, padding rows included."""
    kind: str
    """Tokenizer family, such as "bpe" or "spm"; a pair must agree on it."""
    bos: int | None
    """Token that the model expects first, when the tokenizer adds it by itself."""

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Turn text into ids; with `special`, the spelling of a control token becomes that token."""

    def added_tokens(self) -> Sequence[AddedToken]:
        """Return all tokens that are found by their spelling."""

    def piece(self, token: int) -> bytes:
        """Return the bytes that this token adds to the text.

        That is b"" for a control token, but for marks of thoughts and of calls.
        """

    def text(self, token: int) -> str:
        """Return the vocabulary's own spelling of a token, control tokens included."""

    def is_end(self, token: int) -> bool:
        """Return whether this token ends the generation."""

    def is_padding(self, token: int) -> bool:
        """Return whether this id only pads the vocabulary and stands for no token."""

    def special(self, role: str) -> str:
        """Return the spelling of the "bos" or "eos" token, which chat templates ask for; "" if there is none."""


class LanguageModel(Protocol):
    """One loaded model with one cache. Not safe to use from two threads."""

    name: str
    description: str
    """Architecture, parameters and quantisation, in a few words."""
    context_size: int
    """Most tokens that the cache holds."""
    batch_size: int
    """Most tokens that one `decode` takes."""
    max_rows: int
    """Most rows of logits that one `decode` returns."""
    max_branches: int
    """Most ends of branches in a draft tree, the chain's own end not counted; 0: its memory takes chains alone."""
    rewind_support: RewindSupport
    chat_template: str | None
    """The model's own template, Jinja source; None for a model without one."""
    named_templates: Mapping[str, str]
    """Further templates by name, such as "tool_use"."""

    @property
    def vocab(self) -> Vocab:
        """The tokens it speaks."""

    @property
    def length(self) -> int:
        """Number of tokens in the cache."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        """Append tokens to the cache; return the logits that follow each of the last `rows` tokens.

        With `parents` the last len(parents) tokens are a draft tree: parents[i] is the index among them of the parent
        of node i, less than i, or -1 for the token before them. Nodes 0, 1, 2, ... with parents -1, 0, 1, ... at the
        beginning are the chain, all others branches. A node's row follows the tokens before the tree, its ancestors and
        itself. Only the chain stays in the cache. Raises ValueError for parents that are no tree, or for more branches
        than `max_branches`; all tokens of the pass must fit in the context.

        The result has shape (rows, vocab.size) and is overwritten by the next decode. Raises Cancelled when
        the model's abort flag was raised in the meantime: the cache is then as it was before the call, or empty where
        the memory can't go back.
        """

    def rewind(self, length: int) -> None:
        """Cut the cache to its first `length` tokens; 0 always works, else see `rewind_support`."""

    def can_rewind(self, length: int) -> bool:
        """Return whether `rewind(length)` would work now."""

    def close(self) -> None:
        """Free everything; calling it twice is fine."""


class ModelView:
    """Base of a model that wraps another, with a text of its own; subclasses define `decode`."""

    def __init__(self, model: LanguageModel) -> None:
        """Take the model behind, with whatever text in its cache."""
        self.name: str = model.name
        self.description: str = model.description
        self.context_size: int = model.context_size
        self.batch_size: int = model.batch_size
        self.max_rows: int = model.max_rows
        self.max_branches: int = model.max_branches
        self.rewind_support: RewindSupport = model.rewind_support
        self.chat_template: str | None = model.chat_template
        self.named_templates: Mapping[str, str] = model.named_templates
        self._model = model
        self._tokens: list[int] = []

    @property
    def vocab(self) -> Vocab:
        """The tokens it speaks."""
        return self._model.vocab

    @property
    def length(self) -> int:
        """Number of tokens in the cache, as far as this text goes."""
        return len(self._tokens)

    def can_rewind(self, length: int) -> bool:
        """Return whether `rewind(length)` would work now: what the model behind can't go back over is read again."""
        return 0 <= length <= len(self._tokens)


@dataclass(frozen=True, slots=True)
class Part:
    """One text's part of a shared pass: the row after its next token."""

    model: LanguageModel
    token: int


class Companion(LanguageModel, Protocol):
    """A model whose cache holds other texts too, each a model of its own."""

    def can_join(self, other: LanguageModel) -> bool:
        """Return whether a pass of this model and one of the other can be joined in one."""

    def decode_together(self, parts: Sequence[Part]) -> list[Logits]:
        """Do passes over one token each of several texts as one; return what each one's `decode` would.

        Each of the results, in the order of `parts`, has shape (1, vocab.size). The texts are a chain of such as can
        join each other, in any order. All rows are overwritten by the next decode of any of them. Raises ValueError for
        a text of another cache, for one that stands twice, and for more than `max_rows`, and else as `decode` does: the
        cache of each is then as it was before.
        """


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many leading tokens two texts share: what a cache of one can save in reading the other."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
