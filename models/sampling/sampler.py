"""Sampler of all emitted tokens, and the distribution it samples from.

Every token that localspec emits is `argmax(score + noise)`, where

    scores   come from one row of logits: biases, penalties, DRY, a grammar's veto, top-k, top-p, min-p, temperature
             (llama.cpp's order, but that it lets a grammar speak only where the token it drew is vetoed);
    noise    is Gumbel noise that depends on (seed, position, token id) and on nothing else.

The argmax of log-probabilities plus Gumbel noise is an exact sample (Gumbel-max trick). As the noise does
not depend on the model, a draft model with this sampler uses the target's own noise, and the text does not depend
on the drafter (coupled sampling: Daliri et al. 2024, arXiv 2408.07978). Temperature 0 is the one-hot case:
plain argmax, without noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from models.errors import UsageError
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution, one_hot
from models.sampling.dry import Dry, penalties
from models.sampling.noise import gumbel, stream, strongest_gumbel
from models.sampling.truncation import check_numbers, sorted_top, top_k, top_p

if TYPE_CHECKING:
    # It brings llguidance with it, which takes a tenth of a second and is rarely needed.
    from models.forms.grammar_state import GrammarState

BANNED = -1e6
"""Bias of a token that never comes; finite, so that a row in which all tokens have it still has a likeliest one."""
_DRAFTING = 1
"""Label of the noise that drafts are drawn with."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling parameters of a request; semantics, order and defaults are llama.cpp's."""

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
    """Number of the last tokens, prompt included, that the penalties count; -1: all."""
    seed: int = 0
    """Same seed, same text. Any 64-bit number."""
    bias: tuple[tuple[int, float], ...] = ()
    """Token ids, each once, with the number that is added to its logit before anything else; `BANNED` for never."""
    dry: Dry | None = None
    """Penalty on repetitions, after the other penalties; None: off."""

    def __post_init__(self) -> None:
        limits = (
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0, at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "from 0 to 1"),
            ("repeat_penalty", 1e-3 <= self.repeat_penalty <= 1e3, "from 0.001 to 1000"),
            ("frequency_penalty", abs(self.frequency_penalty) <= 1e3, "from -1000 to 1000"),
            ("presence_penalty", abs(self.presence_penalty) <= 1e3, "from -1000 to 1000"),
            ("penalty_window", self.penalty_window >= -1, "-1 or more"),
            ("bias", all(abs(bias) <= -BANNED for _, bias in self.bias), "numbers from -1000000 to 1000000"),
            ("temperature", _is_temperature(self.temperature), "finite, and at most 0, or 0.001 or more"),
        )
        for name, right, wanted in limits:
            if not right:
                flag = "repeat-last-n" if name == "penalty_window" else name.replace("_", "-")
                raise UsageError(f"{flag} is {getattr(self, name)}", hint=f"{flag} must be {wanted}.")

    @property
    def greedy(self) -> bool:
        """True if the distribution is one-hot."""
        return self.temperature <= 0

    @property
    def truncates(self) -> bool:
        """True if some tokens of the vocabulary are ruled out."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    @property
    def penalises(self) -> bool:
        """True if tokens already seen change the logits."""
        return self.penalty_window != 0 and (
            self.repeat_penalty != 1 or self.frequency_penalty != 0 or self.presence_penalty != 0
        )


def _is_temperature(number: float) -> bool:
    # llama.cpp takes what is below 0 for 0, too.
    return bool(np.isfinite(number)) and not 0 < number < 1e-3


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


@dataclass(frozen=True, slots=True)
class DraftTrial:
    """A draft model's word for one place."""

    token: int
    runner_up: int | None
    """Its second choice; None where there is none."""
    drawn_from: Distribution | None = None
    """The distribution that the token was drawn from; None: it was not left to chance."""


class Sampler:
    """Turns a row of logits, shape (vocabulary,), into the one token that this seed emits at this position."""

    def __init__(
        self,
        params: SamplingParams,
        accept: Accept = Accept.COUPLED,
        listed: int | None = None,
        grammar: "GrammarState | None" = None,
    ) -> None:
        """Take parameters, accept rule, the number of likely tokens to report for each place, and a grammar if any.

        `listed` is None where none are requested.
        """
        self.params = params
        self.listed = listed
        self.grammar = grammar
        # One-hot distributions leave nothing to chance: all rules are the same, and this one is quickest.
        self.accept = Accept.COUPLED if params.greedy else accept

    def pick(self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int] = ()) -> int:
        """Return the token after `tokens` + `drafted`; LocalspecError for a row that is not numbers, here and below."""
        row = self._penalised(row, tokens, drafted)
        if self.params.greedy:
            token = _likeliest(row)
            if self.grammar is None or self.grammar.allows(token, tokens, drafted):
                return token
            return _likeliest(self.allowed(row, tokens, drafted))
        row = self.allowed(row, tokens, drafted)
        position = len(tokens) + len(drafted)
        if self.params.truncates:
            candidates = serve(row, self.params)
        else:
            candidates = _able_to_win(row, self.params, position)
        return int(candidates.ids[np.argmax(candidates.scores + gumbel(self.params.seed, position, candidates.ids))])

    def allowed(
        self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int] = ()
    ) -> NDArray[np.float32]:
        """Return a row in which nothing is possible but what the grammar allows after `tokens` + `drafted`.

        That is the row itself where there is no grammar.
        """
        may = None if self.grammar is None else self.grammar.allowed(tokens, drafted)
        return row if may is None else np.where(may[: len(row)], row, np.float32(-np.inf))

    def proposal(self, row: NDArray[np.float32], context: Sequence[int], proposals: Sequence[int]) -> DraftTrial:
        """Return a draft model's token after `context` + `proposals`, sampled as this accept rule needs it.

        The row is one that `allowed` has returned.
        Coupled: with the target's own noise. Otherwise with noise of its own, and of its own for each round: a rule
        that judges a draft as a whole decides by its later tokens too, so they must not come again in the next round.
        The second choice has the second best key (without cuts: of the tokens that could have won); where drafts are
        drawn it is a draw without replacement.
        """
        penalised = self._penalised(row, context, proposals)
        if self.params.greedy:
            token = _likeliest(penalised)
            return DraftTrial(token, _second_likeliest(penalised, token))
        position, seed = len(context) + len(proposals), self.params.seed
        if self.accept.draws_drafts:
            seed = stream(seed, _DRAFTING, len(context))
        if self.params.truncates or self.accept.draws_drafts:
            candidates = serve(penalised, self.params)
        else:
            candidates = _able_to_win(penalised, self.params, position)
        best = _best_two(candidates.scores + gumbel(seed, position, candidates.ids))
        token, *others = (int(candidates.ids[place]) for place in best)
        drawn_from = _distribution(candidates) if self.accept.draws_drafts else None
        return DraftTrial(token, others[0] if others else None, drawn_from)

    def served(self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int] = ()) -> Distribution:
        """Return the distribution that the token after `tokens` + `drafted` is drawn from."""
        row = self.allowed(self._penalised(row, tokens, drafted), tokens, drafted)
        return one_hot(_likeliest(row)) if self.params.greedy else _distribution(serve(row, self.params))

    def keys(
        self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int] = ()
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return (ids, keys), each of shape (tokens not cut,), best first: the first is the one that is emitted.

        Keys are logits over the temperature, plus the noise; greedy, the logits. The gap to the second says how
        narrowly it won.
        """
        row = self.allowed(self._penalised(row, tokens, drafted), tokens, drafted)
        if self.params.greedy:
            check_numbers(row.max())
            ids = np.argsort(-row, kind="stable")[: np.count_nonzero(row > -np.inf)]
            return ids, row[ids].astype(np.float64)
        candidates = serve(row, self.params)
        keys = candidates.scores + gumbel(self.params.seed, len(tokens) + len(drafted), candidates.ids)
        order = np.argsort(-keys, kind="stable")
        return candidates.ids[order], keys[order]

    def _penalised(
        self, row: NDArray[np.float32], tokens: Sequence[int], drafted: Sequence[int]
    ) -> NDArray[np.float32]:
        params = self.params
        row = _biased(row, params.bias) if params.bias else row
        if params.penalises:
            row = _penalise(row, self._window(tokens, drafted), params)
        if params.dry is not None:
            ids, amounts = penalties([*tokens, *drafted], params.dry)
            row = _less(row, ids, amounts)
        return row

    def _window(self, tokens: Sequence[int], drafted: Sequence[int]) -> list[int]:
        """Return the last tokens, which the penalties count."""
        params = self.params
        size = params.penalty_window if params.penalty_window >= 0 else len(tokens) + len(drafted)
        from_tokens = max(0, size - len(drafted))
        return [*tokens[max(0, len(tokens) - from_tokens) :], *drafted[max(0, len(drafted) - size) :]]


def serve(row: NDArray[np.float32], params: SamplingParams) -> Candidates:
    """Apply top-k, top-p, min-p and temperature (above 0), in this order, to a row of logits, shape (vocabulary,).

    The scores of what is left are logits over the temperature. Raises LocalspecError for a row that is not numbers.
    """
    ids, logits = top_k(row, params.top_k)
    if params.top_p < 1:
        total = np.exp(logits - logits.max()).sum()
        if params.top_k == 0:
            ids, logits = sorted_top(ids, logits, params.top_p * total)
        ids, logits = top_p(ids, logits, params.top_p * total)
    if params.min_p > 0:
        kept = logits >= logits.max() + math.log(params.min_p)
        ids, logits = ids[kept], logits[kept]
    return Candidates(ids, logits / params.temperature)


def _distribution(candidates: Candidates) -> Distribution:
    order = np.argsort(candidates.ids)
    return Distribution(candidates.ids[order], candidates.probs()[order])


def _best_two(keys: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places of the largest key and, if there are two, of the next, in this order."""
    if len(keys) == 1:
        return np.zeros(1, np.int64)
    places = np.argpartition(keys, len(keys) - 2)[-2:]
    return places[np.argsort(-keys[places], kind="stable")]


def _second_likeliest(row: NDArray[np.float32], token: int) -> int | None:
    # Cutting the row costs a pass over each part; a copy without the token as much again, in memory new each time.
    parts = (0, row[:token]), (token + 1, row[token + 1 :])
    ids = [start + int(part.argmax()) for start, part in parts if len(part)]
    second = max(ids, key=lambda other: row[other], default=token)
    return None if second == token or not np.isfinite(row[second]) else second


def _likeliest(row: NDArray[np.float32]) -> int:
    token = int(row.argmax())
    check_numbers(row[token])
    return token


def _biased(row: NDArray[np.float32], bias: Sequence[tuple[int, float]]) -> NDArray[np.float32]:
    ids, values = zip(*bias, strict=True)
    return _less(row, np.array(ids, np.int64), -np.array(values))


def _less(row: NDArray[np.float32], ids: NDArray[np.int64], amounts: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return a row with amounts taken from the logits of some tokens, each listed once."""
    # A draft model's row may be shorter than the target's.
    there = ids < len(row)
    if not there.any():
        return row
    changed = row.copy()
    changed[ids[there]] -= amounts[there].astype(np.float32)
    return changed


def _penalise(row: NDArray[np.float32], window: Sequence[int], params: SamplingParams) -> NDArray[np.float32]:
    ids, counts = np.unique(np.asarray(window, dtype=np.int64), return_counts=True)
    counts = counts[ids < len(row)]
    ids = ids[ids < len(row)]
    seen = row[ids]
    seen = np.where(seen <= 0, seen * params.repeat_penalty, seen / params.repeat_penalty)
    changed = row.copy()
    changed[ids] = seen - counts * params.frequency_penalty - params.presence_penalty
    return changed


def _able_to_win(row: NDArray[np.float32], params: SamplingParams, position: int) -> Candidates:
    """Return the tokens that the strongest noise at this position could lift over the likeliest token's key.

    With nothing ruled out this is the whole vocabulary's exact winner, without a logarithm per token.
    """
    best = _likeliest(row)
    # In Python's float: a float32 quotient can round up, and rule out a winner by a hair.
    to_beat = float(row[best]) / params.temperature + gumbel(params.seed, position, np.array([best]))[0]
    floor = (to_beat - strongest_gumbel(params.seed, position, len(row))) * params.temperature
    # One step down: the comparison is in float32, and rounding the floor up would rule out a possible winner.
    ids = np.flatnonzero(row >= np.nextafter(np.float32(floor), np.float32(-np.inf)))
    return Candidates(ids, row[ids].astype(np.float64) / params.temperature)
