"""The served distribution and the one source of tokens.

Every token that localspec emits is `argmax(score + noise)`, where

    scores   come from one row of logits: penalties, then top-k, top-p, min-p, then temperature (llama.cpp's order);
    noise    is Gumbel noise that depends on (seed, position, token id) and on nothing else.

The argmax of log-probabilities plus Gumbel noise is an exact sample (Gumbel-max trick). As the noise ignores who
asks, a draft model that uses the same sampler guesses with the target's own luck, and the text is the same whatever
drafts (coupled sampling: Daliri et al. 2024, arXiv 2408.07978). Temperature 0 is the one-hot case: plain argmax, no
noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.errors import LocalspecError, UsageError
from models.noise import gumbel, strongest_gumbel

_GRID = 64
"""Rows of the grid whose column maxima bound the k-th largest logit; any number is right, this one is quick."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """What the user asked for; semantics, order and defaults are llama.cpp's."""

    temperature: float = 0.8
    """0 or less: always the likeliest token."""
    top_k: int = 40
    """Keep this many of the likeliest tokens; 0: all."""
    top_p: float = 0.95
    """Keep the smallest set of this probability; 1: all. Counted before the temperature."""
    min_p: float = 0.05
    """Drop tokens below this share of the likeliest one's probability; 0: none."""
    repeat_penalty: float = 1.0
    """Divides positive and multiplies other logits of tokens seen; 1: off."""
    frequency_penalty: float = 0.0
    """Subtracted once per occurrence; 0: off."""
    presence_penalty: float = 0.0
    """Subtracted once from each token seen; 0: off."""
    penalty_window: int = 64
    """How many of the last tokens, prompt included, the penalties look at; -1: all."""
    seed: int = 0
    """Same seed, same text. Any 64-bit number."""

    def __post_init__(self) -> None:
        limits = (
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0, at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "from 0 to 1"),
            ("repeat_penalty", self.repeat_penalty > 0, "above 0"),
            ("penalty_window", self.penalty_window >= -1, "-1 or more"),
            ("temperature", np.isfinite(self.temperature), "a number"),
        )
        for name, right, wanted in limits:
            if not right:
                flag = name.replace("_", "-")
                raise UsageError(f"{flag} is {getattr(self, name)}", hint=f"{flag} must be {wanted}.")

    @property
    def greedy(self) -> bool:
        """Whether the distribution is one-hot."""
        return self.temperature <= 0

    @property
    def truncates(self) -> bool:
        """Whether some tokens of the vocabulary are ruled out."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    @property
    def penalises(self) -> bool:
        """Whether tokens already seen change the logits."""
        return self.penalty_window != 0 and (
            self.repeat_penalty != 1 or self.frequency_penalty != 0 or self.presence_penalty != 0
        )


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tokens that can be emitted, with their scores: log-probabilities up to one constant."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float64]

    def probs(self) -> NDArray[np.float64]:
        """Return their probabilities, which sum to 1."""
        weights: NDArray[np.float64] = np.exp(self.scores - self.scores.max())
        weights /= weights.sum()
        return weights


class Sampler:
    """Turns a row of logits into the one token that this seed emits at this position."""

    def __init__(self, params: SamplingParams) -> None:
        self.params = params

    def pick(self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int] = ()) -> int:
        """Return the token after `tokens` + `drafted`; `row` has shape (vocabulary,)."""
        row = self._penalised(row, tokens, drafted)
        if self.params.greedy:
            return _likeliest(row)
        position = len(tokens) + len(drafted)
        if self.params.truncates:
            candidates = serve(row, self.params)
        else:
            candidates = _able_to_win(row, self.params, position)
        return int(candidates.ids[np.argmax(candidates.scores + gumbel(self.params.seed, position, candidates.ids))])

    def keys(
        self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int] = ()
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return (ids, keys), best first: the emitted token is the first, the gap to the second says how narrowly."""
        row = self._penalised(row, tokens, drafted)
        if self.params.greedy:
            ids = np.argsort(-row, kind="stable")
            return ids, row[ids].astype(np.float64)
        candidates = serve(row, self.params)
        keys = candidates.scores + gumbel(self.params.seed, len(tokens) + len(drafted), candidates.ids)
        order = np.argsort(-keys, kind="stable")
        return candidates.ids[order], keys[order]

    def distribution(
        self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int] = ()
    ) -> NDArray[np.float64]:
        """Return the served probabilities over the whole vocabulary, shape (vocabulary,)."""
        row = self._penalised(row, tokens, drafted)
        probs = np.zeros(len(row))
        if self.params.greedy:
            probs[_likeliest(row)] = 1.0
        else:
            candidates = serve(row, self.params)
            probs[candidates.ids] = candidates.probs()
        return probs

    def _penalised(
        self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int]
    ) -> NDArray[np.float32]:
        params = self.params
        if not params.penalises:
            return row
        size = params.penalty_window if params.penalty_window >= 0 else len(tokens) + len(drafted)
        from_tokens = max(0, size - len(drafted))
        window = [*tokens[max(0, len(tokens) - from_tokens) :], *drafted[max(0, len(drafted) - size) :]]
        return _penalise(row, window, params)


def serve(row: NDArray[np.float32], params: SamplingParams) -> Candidates:
    """Apply top-k, top-p, min-p and temperature, in this order, to a row of logits (temperature above 0)."""
    ids, logits = _top_k(row, params.top_k)
    if params.top_p < 1:
        ids, logits = _top_p(ids, logits, params.top_p)
    if params.min_p > 0:
        kept = logits >= logits.max() + np.log(params.min_p)
        ids, logits = ids[kept], logits[kept]
    return Candidates(ids, logits / params.temperature)


def _likeliest(row: NDArray[np.float32]) -> int:
    token = int(row.argmax())
    if np.isnan(row[token]):
        raise _not_a_number()
    return token


def _penalise(row: NDArray[np.float32], window: Sequence[int], params: SamplingParams) -> NDArray[np.float32]:
    ids, counts = np.unique(np.asarray(window, dtype=np.int64), return_counts=True)
    counts = counts[ids < len(row)]
    ids = ids[ids < len(row)]
    seen = row[ids]
    seen = np.where(seen <= 0, seen * params.repeat_penalty, seen / params.repeat_penalty)
    changed = row.copy()
    changed[ids] = seen - counts * params.frequency_penalty - params.presence_penalty
    return changed


def _top_k(row: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the k largest, largest first, equal ones by id; all of them, by id, when k is 0 or covers the row."""
    if k == 0 or k >= len(row):
        return np.arange(len(row)), _numbers(row)
    ids = _at_least_top(row, k)
    logits = _numbers(row[ids])
    order = np.argsort(-logits, kind="stable")[:k]
    return ids[order], logits[order]


def _at_least_top(row: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return, in order of id, k or more ids with the k largest logits among them.

    Laid out as a grid, each column's maximum is an entry, so the k-th largest maximum has k entries at or above it,
    all of them in columns that reach it: one pass over the row, where a partition of 150,000 logits costs four.
    """
    width = len(row) // _GRID
    if width < k:
        return np.arange(len(row))
    grid = row[: _GRID * width].reshape(_GRID, width)
    peaks = grid.max(axis=0)
    floor = np.partition(peaks, width - k)[width - k]
    columns = np.flatnonzero(peaks >= floor)
    lines, places = np.nonzero(grid[:, columns] >= floor)
    rest = np.flatnonzero(row[_GRID * width :] >= floor) + _GRID * width
    return np.sort(np.concatenate((lines * width + columns[places], rest)))


def _top_p(
    ids: NDArray[np.int64], logits: NDArray[np.float64], share: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Keep the likeliest tokens up to and including the one whose cumulative probability reaches `share`."""
    weights = np.exp(logits - logits.max())
    total = weights.sum()
    depth = 8.0
    # Only the top few nats matter as a rule: sort those, and go deeper while they don't hold the share.
    chosen = np.flatnonzero(logits >= logits.max() - depth)
    while weights[chosen].sum() < share * total and len(chosen) < len(ids):
        depth *= 2
        chosen = np.flatnonzero(logits >= logits.max() - depth) if depth < 1e4 else np.arange(len(ids))
    chosen = chosen[np.argsort(-logits[chosen], kind="stable")]
    count = int(np.searchsorted(np.cumsum(weights[chosen]), share * total)) + 1
    return ids[chosen[:count]], logits[chosen[:count]]


def _able_to_win(row: NDArray[np.float32], params: SamplingParams, position: int) -> Candidates:
    """Return the tokens that the strongest noise at this position could lift over the likeliest token's key.

    With nothing ruled out this is the whole vocabulary's exact winner, without a logarithm per token.
    """
    best = _likeliest(row)
    to_beat = row[best] / params.temperature + gumbel(params.seed, position, np.array([best]))[0]
    floor = (to_beat - strongest_gumbel(params.seed, position, len(row))) * params.temperature
    # One step down: the comparison is in float32, and rounding the floor up would rule out a possible winner.
    ids = np.flatnonzero(row >= np.nextafter(np.float32(floor), np.float32(-np.inf)))
    return Candidates(ids, row[ids].astype(np.float64) / params.temperature)


def _numbers(values: NDArray[np.float32]) -> NDArray[np.float64]:
    exact = values.astype(np.float64)
    if np.isnan(exact.max()):
        raise _not_a_number()
    return exact


def _not_a_number() -> LocalspecError:
    return LocalspecError(
        "The model returned numbers that are not numbers (NaN).",
        hint="The file may be damaged, or this quantisation may not work on this device: try another one, or -ngl 0.",
    )
