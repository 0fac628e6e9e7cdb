"""Tokens of a smaller vocabulary: the most frequent ones of the target's answers, and the nearest for all others."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
_CHUNK = 512
"""Tokens of one matrix product."""


def counted(answers: Iterable[NDArray[np.int32]], size: int) -> NDArray[np.int64]:
    """Return how often each of `size` tokens comes up in some answers."""
    counts = np.zeros(size, np.int64)
    for tokens in answers:
        counts += np.bincount(tokens[tokens < size], minlength=size)
    return counts


def chosen(counts: NDArray[np.int64], always: Sequence[int], ordinary: NDArray[np.bool_], wanted: int) -> Ids:
    """Return the tokens to keep, ascending: those that are always kept, then the most frequent ones.

    Among tokens that did not come up the first are taken: vocabularies list frequent tokens first.
    """
    ranked = np.argsort(-counts, kind="stable")
    taken = np.zeros(len(counts), bool)
    taken[list(always)] = True
    free = ranked[ordinary[ranked] & ~taken[ranked]]
    taken[free[: max(0, wanted - int(taken.sum()))]] = True
    found: Ids = np.flatnonzero(taken).astype(np.int32)
    return found


def nearest(embedding: NDArray[np.float32], kept: Ids, size: int, step: Callable[[float], None]) -> Ids:
    """Return for each of `size` tokens the place of the kept token whose embedding points the same way most closely.

    `embedding` has a row for each token of the draft model; a token beyond has the first kept one. `step` gets the
    share that is done, and may raise.
    """
    norms = np.linalg.norm(embedding, axis=1, keepdims=True)
    unit = embedding / np.maximum(norms, 1e-9)
    found = np.zeros(size, np.int32)
    found[kept] = np.arange(len(kept), dtype=np.int32)
    others = np.setdiff1d(np.arange(min(size, len(unit))), kept)
    there = np.ascontiguousarray(unit[kept].T)
    for start in range(0, len(others), _CHUNK):
        step(start / len(others))
        part = others[start : start + _CHUNK]
        found[part] = (unit[part] @ there).argmax(1)
    return found
