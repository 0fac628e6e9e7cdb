"""What an answer may lose against plain decoding: a budget, kept so that the answer never loses more.

Whenever an answer ends, it has not taken longer than plain decoding by more than three quarters of a token, or less
where answers are short, a small share of its time and, where a source was proven and then failed, half as much again,
or two tokens (and what wide passes make dearer) where a copy broke off; four more where a draft model was lent the time
to read the prompt.
"""

import math

from app.engine.costs.pass_cost import VerifyCurve

BUDGET_TOKENS, TIME_SHARE, _SAVINGS_SHARE = 0.75, 0.015, 0.5
"""What may be lost: the time of so many tokens, a share of the answer's time, and a share of what it saved so far."""
_LENGTH_SHARE, _INFILL_SHARE = 0.015, 0.01
"""Share of the last answers' length that may be lost instead where they were short, and of infills: some infills have
half as many tokens as others."""
_INFILL_LENGTH = 12.0
"""Tokens of an infill before any was seen: infills say nothing of answers, nor answers of infills."""
_TRUST_SHARE = 0.5
"""What may be lost beyond that, as a share of it, where lower bounds show that no loss is to be expected."""
RUN_TOKENS = 2.0
"""What may be lost instead after tokens of a copy that were right in a row, verified or not: an answer that lost its
budget in the first rounds could otherwise make no copy at all."""
LOAN_TOKENS = 4.0
"""What may be lost besides, once in an answer, where a proven draft model is lent the time to read the prompt."""
_LENT_TO_READ = 3.0
"""What reading may take of that: a model that has read and may not draft has read in vain."""
_LEAST_REST = 4.0
"""Tokens that an answer is expected to go on for, at least."""
_BY_CHANCE = 4
"""Tokens that may be right in a row without a copy behind them."""
_FIRST_TOKENS, _LEAST_FREE = 3, 0.2
"""Free draft tokens that have to be affordable before anything is known, and the least that they may lose."""
_LEAST_TOKENS = 0.12
"""What may be lost at least: there are answers of four tokens."""
_FIRST_LENGTH, _HARDLY_DEARER = 4, 0.1
"""Longest first draft of a copy, and tokens' time that it may cost beyond its first token."""


def first_length(curve: VerifyCurve) -> int:
    """Return the longest first draft of a copy: most break off at once, so all tokens but the first must be cheap."""
    most = curve.seconds(2) + _HARDLY_DEARER * curve.seconds(1)
    return next((n for n in range(_FIRST_LENGTH, 1, -1) if curve.seconds(1 + n) <= most), 1)


def kept_back(curve: VerifyCurve, tokens: float) -> float:
    """Return what free drafts may not lose of a budget, in tokens: where passes are cheap, less is enough for them.

    A draft model may lose it all, since it has a prompt to read first.
    """
    cost = curve.seconds(1 + _FIRST_TOKENS) / curve.seconds(1) - 1
    return tokens - min(tokens, max(_LEAST_FREE, cost))


def run_trust(run: int, curve: VerifyCurve) -> float:
    """Return what may be lost, in tokens, after so many tokens of a copy that were right in a row.

    Where wide passes have an aftermath, no copy could be afforded without it.
    """
    return min(RUN_TOKENS + curve.aftermath / curve.seconds(1), max(0, run - _BY_CHANCE) / 2)


class LossBudget:
    """The time an answer took and saved, and what the running round has spent of its budget; all in seconds.

    Call order: `begin()` once an answer; in a round `expect()`, `spend_expected()` and `spend()` as passes of the draft
    model are requested and made, then `end_round()`.
    """

    def __init__(self) -> None:
        self.tokens = BUDGET_TOKENS
        """What an answer may lose before it has saved anything."""
        self._lengths = {False: BUDGET_TOKENS / _LENGTH_SHARE, True: _INFILL_LENGTH}
        """Tokens that an answer is expected to have, and an infill."""
        self._infill = False
        self.begin(0)

    @property
    def _length(self) -> float:
        return self._lengths[self._infill]

    def begin(self, emitted: int, *, infill: bool = False) -> None:
        """Start an answer; take how many tokens the last one had, 0 for none: the next like it has as many.

        The last one counts half, in a geometric mean: short answers weigh as much as long ones.
        """
        if emitted:
            self._lengths[self._infill] = min(math.sqrt(self._length * emitted), BUDGET_TOKENS / _LENGTH_SHARE)
        self._infill = infill
        self.tokens = max(_LEAST_TOKENS, (_INFILL_SHARE if infill else _LENGTH_SHARE) * self._length)
        self._trust = _TRUST_SHARE * self.tokens
        self._has_lent = False
        self.seconds = 0.0
        self.saved = 0.0
        """Against plain decoding; negative when the answer lost."""
        self.spent = 0.0
        self._expected = 0.0
        """Of a pass that was requested, and may be made in this round."""

    def left(self, one: float) -> float:
        """Return what may be lost now, where a pass of one token takes `one`.

        Part of what was saved in this answer, or else, with what was lost before, a small share of its time.
        """
        risked = self.saved if self.saved < 0 else _SAVINGS_SHARE * self.saved
        return self.tokens * one + TIME_SHARE * self.seconds + risked - self.spent

    def trust(self, proof: float) -> float:
        """Return what may be lost besides, in tokens, where that is not to be expected; see `run_trust` for `proof`."""
        return max(0.0, self._trust - proof)

    def rest(self, emitted: int) -> float:
        """Return how many tokens are expected to come: as many as in the last answers, or half of those `emitted`."""
        return max(self._length - emitted, emitted / 2, _LEAST_REST)

    def can_lend(self, reading: float, worth: float, one: float) -> bool:
        """Tell whether a draft model can be lent the time to read the prompt, once in an answer.

        `reading` takes so many seconds, a pass of one token `one`, and drafts then are `worth` so many tokens. An
        infill is over too soon.
        """
        if self._has_lent or self._infill:
            return False
        return reading < one * min(worth, _LENT_TO_READ + self.left(one) / one)

    def lend(self) -> None:
        """Let this answer lose more."""
        self.tokens += LOAN_TOKENS
        self._has_lent = True

    def expect(self, seconds: float) -> None:
        """Take what a requested pass will spend; it replaces an earlier request."""
        self._expected = seconds

    def spend_expected(self) -> None:
        """Count the requested pass: what a round spends before its draft is verified is part of its budget."""
        self.spent += self._expected
        self._expected = 0.0

    def spend(self, seconds: float) -> None:
        """Count a further pass of the draft model."""
        self.spent += seconds

    def end_round(self, seconds: float, saved: float) -> None:
        """Take in what a round took and saved."""
        self.seconds += seconds
        self.saved += saved
        self.spent = 0.0
