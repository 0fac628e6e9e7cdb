"""Model of a draft model's speed-up before either model has run, from known or assumed costs.

A round that drafts n tokens with acceptance probability a emits 1 + a + ... + a^n tokens, and takes T(n + 1) and n
steps of the draft model. Against plain decoding, T(1) for each token, that is

    speed-up = (1 + a + ... + a^n) / (T(n + 1) / T(1) + n c)

where c is the cost of a draft model's step over T(1). n = 0 gives 1: a draft that does not pay off is not made.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from app.engine.constants import ACCEPTANCE, CHEAP_ROW, DEAR_ROW, TEXT_ACCEPTANCE, WORTH

_ASSUMED_WIDTHS = (*range(1, 10), 12, 16, 24, 32)


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of drafting, in one-token passes of the target."""

    verify: Mapping[int, float]
    """T(w) / T(1) by width, for each width that may be used; 1 for width 1."""
    step: float
    """A step of the draft model over T(1)."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Best draft length at one acceptance probability, and its speed-up."""

    length: int
    """Draft length in tokens; 0: plain decoding is best."""
    speed_up: float
    """Speed-up over plain decoding; 1 for plain decoding."""


@dataclass(frozen=True, slots=True)
class Case:
    """Prediction for one kind of text."""

    text: str
    """Kind of text, such as "chat"."""
    acceptance: float
    least: Gain
    """Speed-up at the highest assumed pass costs; equal to `most` where passes were measured."""
    most: Gain


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted gain of a draft model for a target."""

    cases: tuple[Case, ...]
    """Kinds of text by rising acceptance probability."""
    step: float
    """Seconds of a draft model's step over those of a one-token pass of the target."""

    @property
    def least(self) -> float:
        """Speed-up in the worst case, at least 1."""
        return min(case.least.speed_up for case in self.cases)

    @property
    def most(self) -> float:
        """Speed-up in the best case."""
        return max(case.most.speed_up for case in self.cases)

    @property
    def pays(self) -> bool:
        """Whether the draft model may pay off for some kind of text."""
        return self.most >= WORTH

    @property
    def lengths(self) -> tuple[int, int]:
        """Shortest and longest of the best draft lengths."""
        lengths = [gain.length for case in self.cases for gain in (case.least, case.most)]
        return min(lengths), max(lengths)


def expected_emitted(acceptance: float, length: int) -> float:
    """Return the average number of tokens that a round emits, the target's own included."""
    return sum(acceptance**place for place in range(length + 1))


def best_gain(acceptance: float, costs: Costs) -> Gain:
    """Return the draft length with the largest gain; only widths with a known cost are tried."""
    gains = [Gain(0, 1.0)]
    for width, ratio in sorted(costs.verify.items()):
        length = width - 1
        if length > 0:
            gains.append(Gain(length, expected_emitted(acceptance, length) / (ratio + length * costs.step)))
    # max returns the first of equal ones, which is the shortest draft.
    return max(gains, key=lambda gain: gain.speed_up)


def predict(step: float, verify: Mapping[int, float] | None, *, as_text: bool = False) -> Prediction:
    """Return the prediction; `verify` is the measured T(w) / T(1) by width, None where it was not measured.

    `as_text`: the draft model has other tokens than the target.
    """
    dear, cheap = (Costs(verify or assumed_verify(row), step) for row in (DEAR_ROW, CHEAP_ROW))
    chances = _in_order(TEXT_ACCEPTANCE if as_text else ACCEPTANCE)
    cases = (Case(text, chance, best_gain(chance, dear), best_gain(chance, cheap)) for text, chance in chances)
    return Prediction(tuple(cases), step)


def assumed_verify(row: float) -> dict[int, float]:
    """Return T(w) / T(1) by width for a given cost of each further token."""
    return {width: 1 + row * (width - 1) for width in _ASSUMED_WIDTHS}


def _in_order(acceptance: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(acceptance.items(), key=lambda item: item[1])
