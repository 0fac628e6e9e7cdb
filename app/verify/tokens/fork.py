"""Explanation of a fork between a drafted answer and the plain one: a near-tie that was rounded differently, or a bug.

    key          a token's served score, above temperature 0 plus its noise; the sampler takes the largest key
    gap          least change of scores that would make the sampler emit the other token: the difference of both keys,
                 or less where the best token is nearly cut off (top-k, top-p, min-p); and at least the change needed
                 to keep the other token, where it is cut off itself
    noise        largest change of a served score when the same text is read in passes of another width
    noise floor  twice that: two scores can move towards each other

The noise is measured at the fork, on this machine, without a drafter: the text up to there is read anew token by token,
and in passes of each width that the drafted answer had used until then. A gap within the noise floor is a near-tie.
Where these passes agree to the last bit, rounding explains nothing.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from app.bench.measuring.arms import ArmAnswer
from app.engine.decoding.grammar import allowed_after
from app.verify.tokens.rescore import Rescorer, spoken_places
from models.base import LanguageModel, Vocab
from models.sampling.noise import gumbel
from models.sampling.sampler import Sampler, SamplingParams, serve

_WATCHED = 32
"""Candidates whose scores give the size of the noise: the scores of only two tokens may happen not to change."""
_UNLIKE = 0.2
"""Most movement of half of the logits, over their interquartile range; rounding moves them by some hundredths.

Without this limit, a faulty pass that returns another place's row would be explained by its own noise.
"""
_FARTHEST = 1e6
"""Largest score change that the search tries."""
_HALVINGS = 30
_LARGEST_EXPONENT = 700.0
"""Largest exponent without overflow of a float."""
Earlier = Sequence[tuple[ArmAnswer, ArmAnswer]]
Row = NDArray[np.float32]
"""Logits after one text, shape (vocabulary,)."""


class ForkKind(StrEnum):
    """Cause of a fork."""

    NEAR_TIE = "near-tie"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Fork:
    """First place where a drafted answer differs from the plain one, with its cause."""

    kind: ForkKind
    arm: str
    prompt: str
    """Id of the prompt."""
    class_name: str
    turn: int
    """Number of the turn in its conversation, from 0."""
    temperature: float
    seed: int
    place: int
    """Number of equal tokens of the answer before it."""
    tokens: tuple[int | None, int | None]
    """Token of the plain answer and of the drafted one; None: the answer has ended."""
    texts: tuple[str, str]
    """Spellings of the tokens in the vocabulary."""
    widths: tuple[int, ...]
    """Widths of the drafted answer's passes until then, each once, ascending."""
    gap: float | None
    """Gap in served scores; None where one of the answers has no token there."""
    floor: float | None
    """Noise floor in served scores; None as for the gap."""
    seen_at: int | None
    """Width at which the drafted token came without a drafter too; None: it did not."""
    reason: str
    """Reason for the kind, one clause."""


@dataclass(frozen=True, slots=True)
class _Noise:
    largest: float = 0.0
    """Largest change of a watched score."""
    seen_at: int | None = None
    unlike: int | None = None
    """Width of a pass with an unrelated result; None: there is none."""


def differs(plain: ArmAnswer, drafted: ArmAnswer) -> bool:
    """Tell whether an answer differs from the plain one in its tokens, its text, or its ending."""
    return drafted.fork is not None or (plain.text, plain.finish) != (drafted.text, drafted.finish)


def explain(
    target: LanguageModel, plain: ArmAnswer, drafted: ArmAnswer, params: SamplingParams, earlier: Earlier = ()
) -> Fork:
    """Return the explanation of a fork, for sampling by `params`; leaves the cache empty.

    `earlier` are both arms' answers to earlier turns: equal texts, whose passes may have rounded differently.
    Reads the text up to the fork once, and twice more for each width. Raises Cancelled when it is stopped.
    """
    place = len(plain.tokens) if drafted.fork is None else drafted.fork
    here = _unexplained(target.vocab, drafted, place, tokens := (_token(plain, place), _token(drafted, place)))
    if tokens[0] is None or tokens[1] is None:
        return here
    try:
        spoken = spoken_places(plain.prompt_tokens, [(one.prompt_tokens, one.tokens) for one, _ in earlier])
        may = allowed_after(plain.grammar, target.vocab, plain.prompt_tokens, plain.tokens[:place], plain.preface)
        rescorer = Rescorer(target, plain.prompt_tokens, plain.tokens[:place], plain.tokens[place:], spoken, may)
        widths = {*here.widths, *(width for _, one in earlier for width in one.widths)}
        readings = _readings(rescorer, sorted(widths), used_widths(drafted, place, trees=True))
        scale = _Scale(params, (*plain.prompt_tokens, *plain.tokens[:place]))
        return _measured(here, rescorer.row(1, 0), readings, scale)
    finally:
        target.rewind(0)


def _unexplained(vocab: Vocab, drafted: ArmAnswer, place: int, tokens: tuple[int | None, int | None]) -> Fork:
    """Return the place of a fork, before anything is measured."""
    return Fork(
        kind=ForkKind.BUG,
        arm=drafted.arm,
        prompt=drafted.prompt,
        class_name=drafted.class_name,
        turn=drafted.turn,
        temperature=drafted.temperature,
        seed=drafted.seed,
        place=place,
        tokens=tokens,
        texts=(_text(vocab, tokens[0]), _text(vocab, tokens[1])),
        widths=used_widths(drafted, place),
        gap=None,
        floor=None,
        seen_at=None,
        reason="the tokens are the same until one answer ends, and they end differently",
    )


def used_widths(answer: ArmAnswer, place: int, *, trees: bool = False) -> tuple[int, ...]:
    """Return the widths of the passes that made the first `place` + 1 tokens of an answer, each once, ascending.

    With `trees` only those of passes with siblings.
    """
    widths, emitted = set(), 0
    for (_, count), width, tree in zip(answer.rounds, answer.widths, answer.trees, strict=True):
        if emitted > place:
            break
        if tree or not trees:
            widths.add(width)
        emitted += count
    return tuple(sorted(widths))


def _token(answer: ArmAnswer, place: int) -> int | None:
    return answer.tokens[place] if place < len(answer.tokens) else None


def _text(vocab: Vocab, token: int | None) -> str:
    return "" if token is None else vocab.text(token)


def _readings(rescorer: Rescorer, widths: Sequence[int], trees: Sequence[int]) -> Iterator[tuple[int, Row]]:
    """Yield (width, row) of the text read in wide passes."""
    for width in widths:
        # Rows at both ends of a pass: kernels process blocks of rows, and the rest one by one.
        for place in sorted({0, width - 1}) if width > 1 else ():
            yield width, rescorer.row(width, place)
    for width in trees:
        if (row := rescorer.branch_row(width)) is not None:
            yield width, row


def _measured(here: Fork, row: Row, readings: Iterable[tuple[int, Row]], scale: "_Scale") -> Fork:
    """Return a fork with the results of reading its text token by token and in wide passes."""
    plain, drafted = here.tokens
    assert plain is not None
    assert drafted is not None
    noise = _noise(row, readings, scale, plain, drafted)
    gaps = scale.gap(row, plain), scale.gap(row, drafted)
    floor = 2 * noise.largest
    # A pass that reproduces the drafted token needs no gap; but plain decoding must reproduce its own token, too.
    explained = gaps[0] <= floor and (gaps[1] <= floor or noise.seen_at is not None)
    near = noise.largest > 0 and noise.unlike is None and explained
    return replace(
        here,
        kind=ForkKind.NEAR_TIE if near else ForkKind.BUG,
        gap=max(gaps),
        floor=floor,
        seen_at=noise.seen_at,
        reason=_reason(noise, near=near, repeatable=gaps[0] <= floor),
    )


def _noise(narrow: Row, readings: Iterable[tuple[int, Row]], scale: "_Scale", plain: int, drafted: int) -> _Noise:
    """Return the change that wide passes cause in a row computed token by token."""
    scores = scale.scores(narrow)
    watched = np.union1d(scale.candidates(narrow)[:_WATCHED], [plain, drafted])
    found = _Noise()
    for width, row in readings:
        changes = np.abs(scale.scores(row) - scores)
        found = replace(found, largest=max(found.largest, float(changes[watched].max())))
        if found.seen_at is None and scale.candidates(row)[0] == drafted:
            found = replace(found, seen_at=width)
        if found.unlike is None and _is_unlike(changes, scores):
            found = replace(found, unlike=width)
    return found


def _is_unlike(changes: NDArray[np.float64], scores: NDArray[np.float64]) -> bool:
    lower, upper = np.quantile(scores, (0.25, 0.75))
    return bool(np.median(changes) > _UNLIKE * (upper - lower))


def _reason(noise: _Noise, *, near: bool, repeatable: bool) -> str:
    if noise.unlike is not None:
        return f"a pass over {noise.unlike} tokens gives an unrelated result even without a drafter"
    if near and noise.seen_at is not None:
        return f"a pass over {noise.seen_at} tokens rounds the same way even without a drafter"
    if near:
        return "the gap is within what the width of a pass changes here without a drafter"
    if not repeatable:
        return "plain decoding does not repeat its own token"
    if noise.largest == 0:
        return "passes of these widths agree to the last bit here, so rounding explains nothing"
    return "the gap is larger than what the width of a pass changes here"


class _Scale:
    """Scores at one place of a text, in served scores: penalised logits over the temperature."""

    def __init__(self, params: SamplingParams, text: Sequence[int]) -> None:
        self._params = params
        self._text = text
        self._sampler = Sampler(params)
        self._unit = 1.0 if params.greedy else params.temperature

    def candidates(self, row: Row) -> NDArray[np.int64]:
        """Return the ids of possible tokens, the emitted one first."""
        return self._sampler.keys(row, self._text)[0]

    def scores(self, row: Row) -> NDArray[np.float64]:
        """Return the scores of all tokens by id, including tokens that are cut off."""
        return self._logits(row) / self._unit

    def gap(self, row: Row, token: int) -> float:
        """Return the least change of scores that makes a token the emitted one; 0: it is."""
        ids, keys = self._sampler.keys(row, self._text)
        logits = self._logits(row)
        key = logits[token] / self._unit
        if not self._params.greedy:
            key += gumbel(self._params.seed, len(self._text), np.array([token]))[0]
        gap = 0.0 if token in ids else self._lacking(logits, token)
        for rival, ahead in zip(ids, keys - key, strict=True):
            if ahead <= gap:
                break
            gap = max(gap, self._spare(logits, int(rival), float(ahead)))
        return gap

    def _logits(self, row: Row) -> NDArray[np.float64]:
        """Return the penalised logits by id."""
        ids, values = Sampler(replace(self._params, temperature=0.0)).keys(row, self._text)
        logits = np.empty(len(values))
        logits[ids] = values
        return logits

    def _lacking(self, logits: NDArray[np.float64], token: int) -> float:
        """Return the least increase of score with which a token that is cut off would be kept."""
        high = 1e-3
        while high < _FARTHEST and not self._kept(logits, token, high):
            high *= 2
        return _first(lambda more: self._kept(logits, token, more), high)

    def _spare(self, logits: NDArray[np.float64], token: int, most: float) -> float:
        """Return the least decrease of score with which a kept token is cut off; at most `most`."""
        if self._params.greedy or not self._params.truncates or self._kept(logits, token, -most):
            return most
        return _first(lambda less: not self._kept(logits, token, -less), most)

    def _kept(self, logits: NDArray[np.float64], token: int, more: float) -> bool:
        """Tell whether a token passes top-k, top-p and min-p after its score has changed by `more`."""
        raised = logits.astype(np.float32)
        raised[token] += more * self._unit
        # Top-p uses the probability of all tokens before this one, which changes with the score too.
        odds = math.exp(max(-_LARGEST_EXPONENT, min(more * self._unit, _LARGEST_EXPONENT)))
        share = 1 / (1 + (1 - self._params.top_p) / (self._params.top_p * odds))
        return token in serve(raised, replace(self._params, top_p=share)).ids


def _first(holds: Callable[[float], bool], high: float) -> float:
    """Return, approximately, the smallest number from 0 to `high` at which `holds` is true; it is true at `high`."""
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
