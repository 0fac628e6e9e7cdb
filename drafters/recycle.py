"""Token Recycling: a tree of the successors that the target found likeliest after each token before (Luo et al. 2024).

    M[token] = the target's likeliest next tokens, the last time that it read this token
    draft    = the likeliest tree that M gives after the pending token

Every row of a verified draft is kept, those of rejected tokens too, so what the target computed in vain is used again.
arXiv 2408.08696; the paper grows one tree of 80 tokens, here the controller chooses tokens by their chances and costs.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from drafters.base import NO_DRAFT, Draft, Offer, Offers
from models.base import Logits
from models.sampling.sampler import Sampler

_SUCCESSORS = 8
"""Successors kept for each token: 32 bytes. A vocabulary of 50,000 takes 1.6 MB, once all its tokens were read."""
_DEEPEST, _WIDEST = 8, 24
"""Most tokens of the chain, and most offers beside it."""
_ID_BITS, _SHARES = 24, 255
"""Bits of a token id in an entry of the matrix; the rest is its probability, in parts of 1 / 255."""
_SPREAD = float(np.log(2 * _SHARES))
"""Difference of logits at which a probability is less than half of such a part of the largest one's."""


def likely(row: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the ids of the likeliest tokens of a row, in descending order of logits, at most `_SUCCESSORS`.

    Less likely ones than an entry of the matrix can tell from 0 are left out. So nearly all of the row is compared with
    one number only, which takes .1 to .2 ms for a vocabulary of 150,000.
    """
    near = np.flatnonzero(row > row.max() - _SPREAD)
    if len(near) > _SUCCESSORS:
        near = near[np.argpartition(row[near], len(near) - _SUCCESSORS)[len(near) - _SUCCESSORS :]]
    return near[np.argsort(-row[near], kind="stable")]


class Recycle:
    """Drafts trees of likely successors; learns from the target's rows alone, and forgets nothing between answers."""

    name = "recycle"

    def __init__(self, is_end: Callable[[int], bool]) -> None:
        """Take the target's end-of-generation test."""
        self._is_end = is_end
        self._matrix: NDArray[np.uint32] | None = None
        """Successors by token, likeliest first, shape (vocabulary, _SUCCESSORS); None: no row was read yet."""

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        """Do nothing: successors hold in any text."""

    def read_rows(self, pending: int, draft: Draft, rows: Logits) -> None:
        """Keep the likeliest successors of every token of a pass."""
        if self._matrix is None:
            # Zeros take memory only where they are overwritten.
            self._matrix = np.zeros((rows.shape[1], _SUCCESSORS), np.uint32)
        for token, row in zip((pending, *draft.checked), rows, strict=True):
            ids = likely(row)
            if not len(ids):
                # A broken model's row has no largest number.
                continue
            weights = np.exp(row[ids] - row[ids[0]])
            shares = np.rint(weights * (_SHARES / weights.sum())).astype(np.uint32)
            entry = self._matrix[token]
            entry[: len(ids)] = shares << _ID_BITS | ids.astype(np.uint32)
            entry[len(ids) :] = 0

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Return the chain of likeliest successors after the pending token, and the likeliest tokens beside it."""
        tokens, shares = list[int](), list[float]()
        while len(tokens) < min(limit, _DEEPEST):
            first = next(self._after(tokens[-1] if tokens else context[-1]), None)
            if first is None:
                break
            tokens.append(first[0])
            shares.append(first[1])
        if not tokens:
            return NO_DRAFT
        offers = tuple(self._beside(context[-1], tokens, shares, min(limit, _WIDEST)))
        return Draft(tuple(tokens), confidence=tuple(shares), source=self.name, offers=Offers(offers))

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Do nothing: what it learns is in the rows."""

    def close(self) -> None:
        """Forget everything."""
        self._matrix = None

    def _after(self, token: int) -> Iterator[tuple[int, float]]:
        """Yield the successors of a token with their probabilities, likeliest first; none after an end token."""
        if self._matrix is None or self._is_end(token):
            return
        for entry in self._matrix[token].tolist():
            if entry >> _ID_BITS == 0:
                return
            yield entry & (1 << _ID_BITS) - 1, (entry >> _ID_BITS) / _SHARES

    def _beside(self, pending: int, chain: Sequence[int], shares: Sequence[float], most: int) -> Iterator[Offer]:
        """Yield the likeliest tokens beside a chain by the probability of their path, each after its predecessor."""
        heap: list[tuple[float, int, int, Offer, Iterator[tuple[int, float]]]] = []

        def push(place: int, reached: float, successors: Iterator[tuple[int, float]]) -> None:
            # Of the successors of a token the next one is considered once the likelier ones were taken.
            if (after := next(successors, None)) is not None:
                token, share = after
                heappush(heap, (-reached * share, len(order), place, Offer(place, token, share), successors))
                order.append(reached)

        order, reached, count = list[float](), 1.0, 0
        for place, (token, share) in enumerate(zip((pending, *chain), (*shares, 0.0), strict=True)):
            successors = self._after(token)
            if place < len(chain):
                next(successors, None)
                push(place, reached, successors)
            reached *= share
        while heap and count < most:
            chance, number, place, offer, successors = heappop(heap)
            yield offer
            push(place, order[number], successors)
            push(~count, -chance, self._after(offer.token))
            count += 1
