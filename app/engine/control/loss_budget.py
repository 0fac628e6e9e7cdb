"""Loss budget of an answer: how much longer than plain decoding it may take.

Whenever an answer ends, its loss against plain decoding is at most the sum of: the time of three quarters of a token
(less where answers are short); a small share of its time; half as much again where a proven source failed, or two
tokens (and the extra time after wide passes) where a copy broke off; four tokens where a draft model got a loan to read
the prompt.
"""

import math

from app.engine.constants import (
    BUDGET_TOKENS,
    BY_CHANCE,
    FIRST_LENGTH,
    FIRST_TOKENS,
    HARDLY_DEARER,
    INFILL_LENGTH,
    INFILL_SHARE,
    LEAST_FREE,
    LEAST_REST,
    LEAST_TOKENS,
    LENGTH_SHARE,
    LENT_TO_READ,
    LOAN_TOKENS,
    RUN_TOKENS,
    SAVINGS_SHARE,
    TIME_SHARE,
    TRUST_SHARE,
)
from app.engine.costs.pass_cost import VerifyCurve


def first_length(curve: VerifyCurve) -> int:
    """Return the longest first draft of a copy: most copies break off at once, so further tokens must be cheap."""
    most = curve.seconds(2) + HARDLY_DEARER * curve.seconds(1)
    return next((n for n in range(FIRST_LENGTH, 1, -1) if curve.seconds(1 + n) <= most), 1)


def kept_back(curve: VerifyCurve, tokens: float) -> float:
    """Return the part of a budget, in tokens, that free drafts may not use: where passes are cheap, they need less.

    A draft model may use the whole budget, since it reads a prompt first.
    """
    cost = curve.seconds(1 + FIRST_TOKENS) / curve.seconds(1) - 1
    return tokens - min(tokens, max(LEAST_FREE, cost))


def run_trust(run: int, curve: VerifyCurve) -> float:
    """Return the budget, in tokens, after a run of `run` matching tokens of a copy.

    Where one-token passes are slower after wide passes, no copy would be affordable without it.
    """
    return min(RUN_TOKENS + curve.aftermath / curve.seconds(1), max(0, run - BY_CHANCE) / 2)


class LossBudget:
    """Time that an answer took and saved, and the running round's share of its budget; all in seconds.

    Call order: `begin()` once an answer; in a round `expect()`, `spend_expected()` and `spend()` as passes of the draft
    model are requested and made, then `end_round()`.
    """

    def __init__(self) -> None:
        self.tokens = BUDGET_TOKENS
        """Budget of an answer that has saved nothing yet, without a loan."""
        self._lengths = {False: BUDGET_TOKENS / LENGTH_SHARE, True: INFILL_LENGTH}
        """Expected tokens of an answer, and of an infill."""
        self._infill = False
        self.begin(0)

    @property
    def _length(self) -> float:
        return self._lengths[self._infill]

    def begin(self, emitted: int, *, infill: bool = False) -> None:
        """Start an answer after one of `emitted` tokens, 0 for none; the new one is expected to have as many.

        The previous one counts half in a geometric mean, so that short answers weigh as much as long ones.
        """
        if emitted:
            self._lengths[self._infill] = min(math.sqrt(self._length * emitted), BUDGET_TOKENS / LENGTH_SHARE)
        self._infill = infill
        self.tokens = max(LEAST_TOKENS, (INFILL_SHARE if infill else LENGTH_SHARE) * self._length)
        self._trust = TRUST_SHARE * self.tokens
        self.lent = 0.0
        """Tokens lent in this answer to a draft model."""
        self.seconds = 0.0
        self.saved = 0.0
        """Against plain decoding; negative when the answer lost."""
        self.spent = 0.0
        self._expected = 0.0
        """Of a pass that was requested, and may be made in this round."""

    def left(self, one: float) -> float:
        """Return the seconds that may be lost now; `one` is the seconds of a one-token pass.

        A part of the time saved in this answer or, less what was lost before, a small share of its time.
        """
        risked = self.saved if self.saved < 0 else SAVINGS_SHARE * self.saved
        return (self.tokens + self.lent) * one + TIME_SHARE * self.seconds + risked - self.spent

    def trust(self, proof: float) -> float:
        """Return the extra budget in tokens where no loss is expected; see `run_trust` for `proof`."""
        return max(0.0, self._trust - proof)

    def rest(self, emitted: int) -> float:
        """Return the expected number of further tokens: as in the last answers, or half of those `emitted`."""
        return max(self._length - emitted, emitted / 2, LEAST_REST)

    def can_lend(self, reading: float, worth: float, one: float) -> bool:
        """Tell whether a draft model can get the loan to read the prompt, once in an answer.

        `reading` and `one`, a one-token pass, are in seconds; `worth` is the gain of later drafts in tokens. An infill
        ends too soon for a loan.
        """
        if self.lent > 0 or self._infill:
            return False
        return reading < one * min(worth, LENT_TO_READ + self.left(one) / one)

    def lend(self) -> None:
        """Add the loan to this answer's budget."""
        self.lent = LOAN_TOKENS

    def expect(self, seconds: float) -> None:
        """Take the expected seconds of a requested pass; replaces an earlier request."""
        self._expected = seconds

    def spend_expected(self) -> None:
        """Charge the requested pass to the round."""
        self.spent += self._expected
        self._expected = 0.0

    def spend(self, seconds: float) -> None:
        """Charge a further pass of the draft model to the round."""
        self.spent += seconds

    def end_round(self, seconds: float, saved: float) -> None:
        """Count the seconds that a round took and saved."""
        self.seconds += seconds
        self.saved += saved
        self.spent = 0.0
