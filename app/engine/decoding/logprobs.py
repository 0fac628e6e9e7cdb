"""Log probabilities of an answer's tokens under the target, for clients that ask for them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from app.engine.decoding.verify import Verdict
from drafters.base import Draft
from models.base import Logits, Vocab


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Log probabilities at one place of the text, before penalties, cuts and temperature."""

    token: int
    """Emitted token id."""
    logprob: float
    best: tuple[tuple[int, float], ...]
    """Most likely tokens of that place, in order, as many as requested; the emitted one may be missing."""


@dataclass(frozen=True, slots=True)
class Likely:
    """Candidate token for a place of the text."""

    token: int
    data: bytes
    """Bytes that it adds to the text; for a control token, which adds none, its spelling."""
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Emitted token with the most likely candidates for its place."""

    emitted: Likely
    best: tuple[Likely, ...]


def places(found: Iterable[Likelihood], vocab: Vocab, *, ends: bool = False) -> tuple[TokenLogprobs, ...]:
    """Return likelihoods with tokens as bytes; with `ends` also those of end tokens, which are no text."""

    def likely(token: int, logprob: float) -> Likely:
        return Likely(token, vocab.piece(token) or vocab.text(token).encode(), logprob)

    return tuple(
        TokenLogprobs(likely(one.token, one.logprob), tuple(likely(*pair) for pair in one.best))
        for one in found
        if ends or not vocab.is_end(one.token)
    )


def likelihoods(logits: Logits, draft: Draft, verdict: Verdict, listed: int) -> tuple[Likelihood, ...]:
    """Return the log probability of each token that a verdict emits, with the `listed` most likely of its place.

    Rows are as for `app.engine.decoding.verify.verify`; a draft token's row is the one that it was judged by.
    """
    rows = list(range(verdict.accepted + 1))
    rows += draft.rows_of(verdict.branch, verdict.accepted)
    emitted = verdict.emitted(draft)
    return tuple(_likelihood(logits[row], token, listed) for row, token in zip(rows, emitted, strict=True))


def scored(rows: Logits, tokens: Sequence[int], listed: int) -> tuple[Likelihood, ...]:
    """Return the log probability of each token of a text under the row before it, with the `listed` most likely."""
    return tuple(_likelihood(row, token, listed) for row, token in zip(rows, tokens, strict=True))


def unscored(token: int) -> Likelihood:
    """Return the entry of a text's first token, which nothing comes before: its log probability is not a number."""
    return Likelihood(token, nan, ())


def _likelihood(row: NDArray[np.float32], token: int, listed: int) -> Likelihood:
    top = row.max()
    total = float(top) + float(np.log(np.exp(row - top).sum(dtype=np.float64)))
    listed = min(listed, len(row))
    ids = np.argpartition(row, len(row) - listed)[len(row) - listed :] if listed else np.zeros(0, np.int64)
    # Among equals the lower id comes first, as in the sampler.
    ids = ids[np.lexsort((ids, -row[ids]))]
    return Likelihood(token, float(row[token]) - total, tuple((int(one), float(row[one]) - total) for one in ids))
