"""How likely the tokens of an answer were to the target, for clients that ask for log probabilities."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine.decoding.verify import Verdict
from drafters.base import Draft
from models.base import Logits, Vocab


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Log probabilities of one place of the text, before penalties, cuts and temperature."""

    token: int
    """What was emitted there."""
    logprob: float
    best: tuple[tuple[int, float], ...]
    """The likeliest tokens of that place, in order, as many as are wanted; the emitted one need not be among them."""


@dataclass(frozen=True, slots=True)
class Likely:
    """A token that might stand at a place of the text."""

    token: int
    data: bytes
    """What it adds to the text; the spelling of a control token, which adds nothing."""
    logprob: float


@dataclass(frozen=True, slots=True)
class Place:
    """An emitted token, and what else was likely."""

    said: Likely
    best: tuple[Likely, ...]


def places(found: Iterable[Likelihood], vocab: Vocab) -> tuple[Place, ...]:
    """Return likelihoods as they are told: tokens by their bytes, and none for the end of an answer."""

    def likely(token: int, logprob: float) -> Likely:
        return Likely(token, vocab.piece(token) or vocab.text(token).encode(), logprob)

    return tuple(
        Place(likely(one.token, one.logprob), tuple(likely(*pair) for pair in one.best))
        for one in found
        if not vocab.is_end(one.token)
    )


def likelihoods(logits: Logits, draft: Draft, verdict: Verdict, listed: int) -> tuple[Likelihood, ...]:
    """Return how likely each token is that a verdict emits, with the `listed` likeliest of its place.

    Rows are as for `app.engine.decoding.verify.verify`: a token that was drafted has the row that it was judged by.
    """
    rows = list(range(verdict.accepted + 1))
    if verdict.sibling is not None and (sibling := draft.sibling(verdict.accepted)) is not None:
        rows.append(sibling[0])
    emitted = verdict.emitted(draft)
    return tuple(_likelihood(logits[row], token, listed) for row, token in zip(rows, emitted, strict=True))


def _likelihood(row: NDArray[np.float32], token: int, listed: int) -> Likelihood:
    top = row.max()
    total = float(top) + float(np.log(np.exp(row - top).sum(dtype=np.float64)))
    listed = min(listed, len(row))
    ids = np.argpartition(row, len(row) - listed)[len(row) - listed :] if listed else np.zeros(0, np.int64)
    # Of equals the lower id comes first, as the sampler has it.
    ids = ids[np.lexsort((ids, -row[ids]))]
    return Likelihood(token, float(row[token]) - total, tuple((int(one), float(row[one]) - total) for one in ids))
