"""What a draft model would gain, before either model was run: arithmetic over costs that are known or assumed.

A round that drafts n tokens, each right with chance a when those before it were, emits 1 + a + ... + a^n of them, the
target's own included, and takes T(n + 1) and n steps of the draft model. Against plain decoding, T(1) a token, that is

    speed-up = (1 + a + ... + a^n) / (T(n + 1) / T(1) + n c)

with c, a step of the draft model over T(1). n = 0 gives 1: a draft that does not pay is not made.
"""

from collections.abc import Mapping
from dataclasses import dataclass

ACCEPTANCE = {"chat": 0.69, "summaries": 0.80, "code": 0.97}
"""Chance that a guess is right by kind of text: Qwen2.5-Coder 0.5B drafting for the 1.5B at temperature 0.7."""
CHEAP_ROW, DEAR_ROW = 0.15, 1.0
"""Price of a further token in a pass over that of the first, where nothing was measured.

Seen: less than a sixth with localspec's kernels, up to a whole one without. Between them is what is not known.
"""
WORTH = 1.05
"""A draft model that is predicted to gain less is not worth its memory."""
_ASSUMED_WIDTHS = (*range(1, 10), 12, 16, 24, 32)


@dataclass(frozen=True, slots=True)
class Costs:
    """What drafting costs, in one-token passes of the target."""

    verify: Mapping[int, float]
    """T(w) / T(1) by width, for each width that may be used; 1 for width 1."""
    step: float
    """A step of the draft model over T(1)."""


@dataclass(frozen=True, slots=True)
class Gain:
    """The best that can be done at one acceptance."""

    length: int
    """Draft length; 0: not drafting is best."""
    speed_up: float
    """Against plain decoding; 1 for not drafting."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is expected for one kind of text."""

    text: str
    """Such as "chat"."""
    acceptance: float
    least: Gain
    """With the dearest passes that are assumed; equal to `most` where passes were measured."""
    most: Gain


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a draft model would gain for a target."""

    cases: tuple[Case, ...]
    """From the text that is hardest to guess to the easiest."""
    step: float
    """A step of the draft model over a one-token pass of the target."""

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
        """Whether there is a kind of text for which the draft model may be worth having."""
        return self.most >= WORTH

    @property
    def lengths(self) -> tuple[int, int]:
        """Shortest and longest of the best draft lengths."""
        lengths = [gain.length for case in self.cases for gain in (case.least, case.most)]
        return min(lengths), max(lengths)


def expected_emitted(acceptance: float, length: int) -> float:
    """Return the tokens that a round emits on average, the target's own included."""
    return sum(acceptance**place for place in range(length + 1))


def best_gain(acceptance: float, costs: Costs) -> Gain:
    """Return the draft length that gains most, and what it gains; only widths with a known cost are tried."""
    gains = [Gain(0, 1.0)]
    for width, ratio in sorted(costs.verify.items()):
        length = width - 1
        if length > 0:
            gains.append(Gain(length, expected_emitted(acceptance, length) / (ratio + length * costs.step)))
    # Of equals the shortest: max returns the first.
    return max(gains, key=lambda gain: gain.speed_up)


def predict(step: float, verify: Mapping[int, float] | None) -> Prediction:
    """Return what is to be expected; `verify` is T(w) / T(1) by width as measured, None where it was not."""
    dear = Costs(verify or assumed_verify(DEAR_ROW), step)
    cheap = Costs(verify or assumed_verify(CHEAP_ROW), step)
    cases = (Case(text, chance, best_gain(chance, dear), best_gain(chance, cheap)) for text, chance in _in_order())
    return Prediction(tuple(cases), step)


def assumed_verify(row: float) -> dict[int, float]:
    """Return T(w) / T(1) by width for a price of each further token."""
    return {width: 1 + row * (width - 1) for width in _ASSUMED_WIDTHS}


def _in_order() -> list[tuple[str, float]]:
    return sorted(ACCEPTANCE.items(), key=lambda item: item[1])
