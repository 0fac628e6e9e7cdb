"""Toy models with tokens of several bytes, for drafts between models that cut a text in different ways."""

from collections.abc import Sequence
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from models.base import AddedToken
from models.toy import ToyModel, ToyVocab

LETTERS = [ToyVocab().piece(token) for token in range(ToyVocab().end)]
"""The toy's text: every byte of it is a token of the toy, of a target that spells bytes."""
PAIRS = [b"".join(pair) for pair in product(LETTERS[:7], repeat=2)]
"""With these, nearly every two letters merge."""
WORDS = [b"the ", b"eta", b"tao", b"oin", b" s", b"e ", b". ", b"\xc3\xa9", b"ee", b"tt", b"aaa"]
_CONTROLS = ("<end>", "<mark>")


class OtherVocab(ToyVocab):
    """Tokens of bytes and of strings of them, the longest first; `leading`: a blank comes before every text."""

    kind = "other"

    def __init__(self, strings: Sequence[bytes] = (), *, leading: bool = False, bytes_first: bool = True) -> None:
        super().__init__()
        self._strings = [*LETTERS, *strings] if bytes_first else [*strings, *LETTERS]
        self._leading = leading
        self.end = len(self._strings)
        self.mark = self.end + 1
        self.size = self.end + len(_CONTROLS)
        self._pieces = [*self._strings, b"", b""]

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        return {piece: token for token, piece in enumerate(self._strings)}

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        data = text.lower().encode(errors="replace")
        if special and text in _CONTROLS:
            return [self.end + _CONTROLS.index(text)]
        return self.spell((b" " if self._leading else b"") + data)

    def spell(self, data: bytes) -> list[int]:
        ids, place = [], 0
        while place < len(data):
            size = next((size for size in range(4, 0, -1) if data[place : place + size] in self._ids), 1)
            ids.append(self._ids.get(data[place : place + size], self._ids[b" "]))
            place += size
        return ids

    def added_tokens(self) -> list[AddedToken]:
        return [AddedToken(self.end + place, spelling, True) for place, spelling in enumerate(_CONTROLS)]

    def text(self, token: int) -> str:
        return _CONTROLS[token - self.end] if token >= self.end else self._strings[token].decode("latin-1")

    def is_padding(self, token: int) -> bool:  # noqa: ARG002
        return False


class OtherToy(ToyModel):
    """A toy over other tokens."""

    def __init__(self, vocab: OtherVocab, seed: int = 0, context_size: int = 512) -> None:
        super().__init__(seed, context_size=context_size)
        self.vocab: OtherVocab = vocab  # type: ignore[assignment]
        table = np.random.default_rng(seed)
        self._pairs = table.gumbel(scale=2.0, size=(vocab.size, vocab.size)).astype(np.float32)
        self._pairs[:, vocab.end] -= 4.0
        self._pairs[:, vocab.end + 1 :] = -1e4


class KnowingToy(OtherToy):
    """Knows the text that a target would emit after the bytes in its cache, and spells it in tokens of its own.

    Its first token is no part of the text. `wrong_every`: one of so many tokens is another one, 0: none.
    """

    def __init__(self, vocab: OtherVocab, target: ToyModel, wrong_every: int = 0) -> None:
        super().__init__(vocab, context_size=target.context_size)
        self._target = target
        self._wrong_every = wrong_every

    def _row(self, end: int) -> NDArray[np.float32]:
        row = np.zeros(self.vocab.size, np.float32)
        if self._wrong_every and end % self._wrong_every == 0:
            row[end % self.vocab.end] = 20.0
            return row
        known = self.vocab.spell(self._next(b"".join(self.vocab.piece(token) for token in self._cache[1:end])))
        row[known[0] if known else self.vocab.end] = 20.0
        return row

    def _next(self, data: bytes) -> bytes:
        """Return the next bytes of the target's greedy text, at least as many as a token has."""
        target, spell = self._target, getattr(self._target.vocab, "spell", None)
        kept, target._cache = target._cache, list(spell(data) if spell else map(LETTERS.index, map(_byte, data)))
        try:
            more = b""
            while target._cache and len(more) < 4:
                token = int(target._row(len(target._cache)).argmax())
                if target.vocab.is_end(token):
                    break
                more += target.vocab.piece(token)
                target._cache.append(token)
            return more
        finally:
            target._cache = kept


def _byte(value: int) -> bytes:
    return bytes([value])
