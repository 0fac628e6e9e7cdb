"""DRY: a penalty on tokens that would prolong a repetition of earlier text, larger the longer it is.

Semantics are those of llama.cpp's sampler, but that a sequence breaker is a token that contains one of its texts.
A text that is spread over two tokens breaks nothing.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.base import Vocab
from models.errors import UsageError

BREAKERS = ("\n", ":", '"', "*")
"""Texts that end a repetition, where a request names none."""
_LARGEST = 1e6
"""Penalty, in nats, above which a longer repetition changes nothing."""


@dataclass(frozen=True, slots=True)
class Dry:
    """Parameters of the penalty; a repetition of n tokens costs multiplier * base ** (n - allowed_length)."""

    multiplier: float
    """Penalty of the shortest repetition that has one, in nats; above 0."""
    base: float = 1.75
    """Growth of the penalty with each further token; 1 or more."""
    allowed_length: int = 2
    """Repeated tokens that the next one may follow without a penalty, less one; 1 or more."""
    window: int = -1
    """Number of the last tokens, prompt included, in which repetitions are looked for; -1: all."""
    breakers: frozenset[int] = frozenset()
    """Tokens that end a repetition; they have no penalty themselves."""

    def __post_init__(self) -> None:
        limits = (
            ("multiplier", 0 < self.multiplier <= _LARGEST, "above 0"),
            ("base", 1 <= self.base <= 100, "from 1 to 100"),
            ("allowed-length", self.allowed_length >= 1, "1 or more"),
            ("penalty-last-n", self.window >= -1, "-1 or more"),
        )
        for name, right, wanted in limits:
            if not right:
                raise UsageError(f"dry-{name} is out of range.", hint=f"dry-{name} must be {wanted}.")

    @property
    def longest(self) -> int:
        """Repeated tokens beyond which the penalty grows no more."""
        if self.base == 1:
            return self.allowed_length
        room = math.log(_LARGEST / self.multiplier) / math.log(self.base) if self.multiplier < _LARGEST else 0
        return self.allowed_length + math.ceil(room)


def breaker_tokens(vocab: Vocab, texts: tuple[str, ...]) -> frozenset[int]:
    """Return the tokens that contain one of some texts; found once, as it takes a tenth of a second."""
    # Protocols do not say that their objects can be hashed, which all of these can, by identity.
    by_identity: Any = vocab
    return _found(by_identity, texts)


@lru_cache(maxsize=8)
def _found(vocab: Any, texts: tuple[str, ...]) -> frozenset[int]:
    needles = [text.encode() for text in texts if text]
    pieces = ((token, vocab.piece(token)) for token in range(vocab.size) if not vocab.is_padding(token))
    return frozenset(token for token, piece in pieces if any(needle in piece for needle in needles))


def penalties(text: Sequence[int], dry: Dry) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (ids, penalties) of the tokens that would prolong a repetition at the end of a text."""
    window = np.asarray(text[-dry.window :] if dry.window > 0 else text if dry.window else (), dtype=np.int64)
    limit = _since_breaker(window, dry.breakers, dry.longest)
    if limit < dry.allowed_length:
        return np.zeros(0, np.int64), np.zeros(0)
    ends = np.flatnonzero(window[:-1] == window[-1])
    lengths = np.zeros(len(ends), np.int64)
    alive = np.arange(len(ends))
    for length in range(1, limit + 1):
        lengths[alive] = length
        alive = alive[ends[alive] >= length]
        if not len(alive):
            break
        alive = alive[window[ends[alive] - length] == window[-1 - length]]
    long = lengths >= dry.allowed_length
    ids, places = np.unique(window[ends[long] + 1], return_inverse=True)
    longest = np.zeros(len(ids), np.int64)
    np.maximum.at(longest, places, lengths[long])
    kept = np.array([int(token) not in dry.breakers for token in ids], dtype=bool)
    return ids[kept], dry.multiplier * dry.base ** (longest[kept] - dry.allowed_length).astype(np.float64)


def _since_breaker(window: NDArray[np.int64], breakers: Collection[int], most: int) -> int:
    """Return how many tokens follow the last breaker, at most `most`."""
    last = window[::-1][:most]
    return next((place for place, token in enumerate(last) if int(token) in breakers), len(last))
