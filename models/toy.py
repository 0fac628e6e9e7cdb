"""ToyModel, a small language model without llama.cpp, for tests and as an introduction to the protocols. Start here.

It speaks 32 tokens (letters, a space, the two halves of "é", an end). The row of logits after a token comes from a
seeded table of word pairs, so the text repeats itself as real text does, plus a little noise drawn from *every* token
in the cache: a single stale, missing or misplaced token shows at once. Tests of the whole loop run on it in
milliseconds.
"""

import re
from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from models.abort import AbortFlag
from models.base import AddedToken, LanguageModel, Logits, Part, RewindSupport
from models.errors import Cancelled, context_full
from models.tree import read_tree

_LETTERS = "etaoinshrdlucmfwypvbgkjxqz .\n"
_PIECES = [*(letter.encode() for letter in _LETTERS), b"\xc3", b"\xa9"]
_MARKERS = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>")
_MASK = (1 << 64) - 1


class ToyVocab:
    """32 tokens and, if asked for, fill-in-the-middle markers, and padding rows; see `models.base.Vocab`."""

    kind: str = "toy"
    bos: int | None = None

    def __init__(self, padding: int = 0, *, markers: bool = False) -> None:
        self.end = len(_PIECES)
        self._controls = ("<end>", *(_MARKERS if markers else ()))
        self._pieces = [*_PIECES, *[b""] * (len(self._controls) + padding)]
        self.size = len(self._pieces)

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Return one token a byte; where `special`, "<end>" is the end token. Unknown bytes are spaces."""
        parts = re.split(f"({'|'.join(self._controls)})", text) if special else [text]
        ids: list[int] = []
        for place, part in enumerate(parts):
            if place % 2:
                ids.append(self.end + self._controls.index(part))
            else:
                ids += [self._id(bytes([byte])) for byte in part.lower().encode(errors="replace")]
        return ids

    def added_tokens(self) -> list[AddedToken]:
        """Return the control tokens."""
        return [AddedToken(self.end + place, spelling, True) for place, spelling in enumerate(self._controls)]

    def piece(self, token: int) -> bytes:
        """Return the byte of a token; a control token has none."""
        return self._pieces[token]

    def text(self, token: int) -> str:
        """Return the token's spelling."""
        if token < self.end:
            return self._pieces[token].decode("latin-1")
        place = token - self.end
        return self._controls[place] if place < len(self._controls) else f"[PAD{token}]"

    def is_padding(self, token: int) -> bool:
        """Tell whether this id stands for no token."""
        return token >= self.end + len(self._controls)

    def special(self, role: str) -> str:
        """Return the spelling of the end token; there is no other."""
        return "<end>" if role == "eos" else ""

    def is_end(self, token: int) -> bool:
        """Tell whether this token ends the generation."""
        return token == self.end

    def _id(self, byte: bytes) -> int:
        return _PIECES.index(byte) if byte in _PIECES else _LETTERS.index(" ")


class ToyModel:
    """A seeded model over `ToyVocab`; see `models.base.LanguageModel`."""

    def __init__(
        self,
        seed: int = 0,
        *,
        unlikeness: float = 0.0,
        context_size: int = 512,
        rewind_limit: int | None = None,
        padding: int = 0,
        markers: bool = False,
        abort: AbortFlag | None = None,
    ) -> None:
        """Make a model; `unlikeness` moves its logits away from those of the same seed (0: the same model).

        With `markers` it can be asked for what is missing in a text.
        """
        self.name = f"toy-{seed}"
        self.description = "toy, 32 tokens, no weights"
        self.vocab = ToyVocab(padding, markers=markers)
        self.context_size = context_size
        self.batch_size = 64
        self.max_rows = 17
        self.max_branches = 8 if rewind_limit is None else 0
        self.rewind_support = RewindSupport(rewind_limit, "a list of tokens")
        self.chat_template: str | None = None
        self.named_templates: Mapping[str, str] = {}
        self.decoded = 0
        """Tokens that went through `decode` in all, for tests that count work."""
        self._abort = abort or AbortFlag()
        self._cache: list[int] = []
        self._seed = seed
        self._unlikeness = unlikeness
        table = np.random.default_rng(seed)
        self._pairs = table.gumbel(scale=2.0, size=(self.vocab.size, self.vocab.size)).astype(np.float32)
        self._pairs[:, self.vocab.end] -= 4.0
        self._pairs[:, self.vocab.end + 1 :] = -1e4

    @property
    def length(self) -> int:
        """Number of tokens in the cache."""
        return len(self._cache)

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        """Append tokens to the cache; return the logits after each of the last `rows`, shape (rows, vocab.size).

        Each row of a tree is that of its path; only the chain stays.
        """
        count = len(tokens)
        if not 1 <= count <= self.batch_size or not 0 <= rows <= min(count, self.max_rows):
            raise ValueError(f"{count} tokens with {rows} rows in one pass")
        if self.length + count > self.context_size:
            raise context_full(self.length + count, self.context_size)
        tree = read_tree(parents, count, self.max_branches)
        if self._abort.is_set:
            raise Cancelled("Stopped.")
        self.decoded += count
        start, first = self.length, count - len(parents)
        stays = first + tree.chain
        self._cache += tokens[:stays]
        got = [self._row(start + place + 1) for place in range(count - rows, stays)]
        branches = range(max(tree.chain, len(parents) - rows), len(parents))
        paths = [[tokens[first + step] for step in tree.path(node)] for node in branches]
        got += [self._row_of_path(start + first, path) for path in paths]
        return np.array(got, np.float32).reshape(rows, self.vocab.size)

    def rewind(self, length: int) -> None:
        """Cut the cache to its first `length` tokens."""
        if not self.can_rewind(length):
            raise ValueError(f"can't rewind a cache of {self.length} tokens to {length}")
        del self._cache[length:]

    def can_rewind(self, length: int) -> bool:
        """Tell whether `rewind(length)` would work."""
        limit = self.rewind_support.limit
        return length == 0 or (0 < length <= self.length and (limit is None or self.length - length <= limit))

    def twin(self) -> "ToyModel":
        """Return another cache of the same model."""
        twin = copy(self)
        twin._cache, twin.decoded = [], 0
        return twin

    def can_join(self, other: LanguageModel) -> bool:
        """Tell whether the other one is a twin of this."""
        return isinstance(other, ToyModel) and other is not self and other._pairs is self._pairs

    def decode_together(self, parts: Sequence[Part]) -> list[Logits]:
        """Do the passes of several twins; see `models.base.Companion`."""
        models = [part.model for part in parts]
        strange = [model for model in models if model is not self and not self.can_join(model)]
        if strange or len(set(map(id, models))) < len(models) or len(models) > self.max_rows:
            raise ValueError(f"{len(parts)} passes can't be one")
        lengths = [model.length for model in models]
        try:
            return [part.model.decode([part.token], 1) for part in parts]
        except BaseException:
            for model, length in zip(models, lengths, strict=True):
                model.rewind(min(length, model.length))
            raise

    def close(self) -> None:
        """Forget everything."""
        self._cache.clear()

    def _row_of_path(self, length: int, path: Sequence[int]) -> NDArray[np.float32]:
        """Return the logits after the first `length` tokens of the cache and these."""
        kept, self._cache = self._cache, [*self._cache[:length], *path]
        row = self._row(self.length)
        self._cache = kept
        return row

    def _row(self, end: int) -> NDArray[np.float32]:
        """Return the logits after the first `end` tokens of the cache."""
        state = self._seed
        for token in self._cache[:end]:
            state = (state * 6364136223846793005 + token + 1442695040888963407) & _MASK
        noise = np.random.default_rng(state).normal(size=(2, self.vocab.size)).astype(np.float32)
        row: NDArray[np.float32] = self._pairs[self._cache[end - 1]] + np.float32(0.3) * noise[0]
        row += np.float32(self._unlikeness) * noise[1]
        return row
