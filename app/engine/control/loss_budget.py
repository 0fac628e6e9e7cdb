"""What an answer may lose against plain decoding: a stake, kept so that it never loses more.

Whenever an answer ends, it has not taken longer than plain decoding by more than three quarters of a token, or less
where answers are short, a small share of its time and, where a source had proved what it can do and then failed, half
as much again, or two tokens (and what wide passes make dearer) where a copy broke off; four more where a draft model
was lent the time to read the prompt.
"""

import math

from app.engine.calibrate import VerifyCurve

STAKE_TOKENS, STAKE_SHARE, _SAVINGS_SHARE = 0.75, 0.015, 0.5
"""What may be lost: the time of so many tokens, a share of the answer's time, and a share of what it saved so far."""
_LENGTH_SHARE, _HOLE_SHARE = 0.015, 0.01
"""Share of the last answers' length that may be lost instead where they were short, and of what filled holes: some are
filled by half as many tokens as others."""
_HOLE_LENGTH = 12.0
"""Tokens that fill a hole in a text, before any was filled: that says nothing of answers, nor they of it."""
_TRUST_SHARE = 0.5
"""What may be lost beyond that, as a share of it, where it is proved that it is not to be expected."""
RUN_TOKENS = 2.0
"""What may be lost instead where guesses came true one after the other, checked or not: who lost all that he may in the
first rounds of an answer must not watch a copy go by that he could have made."""
LOAN_TOKENS = 4.0
"""What may be lost besides, once in an answer, where a draft model that has proved itself is let read the prompt."""
_LENT_TO_READ = 3.0
"""What reading may take of that: a model that has read and may not guess has read in vain."""
_LEAST_REST = 4.0
"""Tokens that an answer is expected to go on for, at least."""
_BY_CHANCE = 4
"""Guesses that may come true in a row without a copy behind them."""
_FIRST_GUESSES, _LEAST_FREE = 3, 0.2
"""Free guesses that have to be affordable before anything is known, and what all of them may lose where they are."""
_LEAST_TOKENS = 0.12
"""What may be lost at least: answers of four tokens there are."""
_FIRST_LENGTH, _HARDLY_DEARER = 4, 0.1
"""Longest first draft of a copy, and tokens' time that it may cost beyond its first guess."""


def first_length(curve: VerifyCurve) -> int:
    """Return the longest first draft of a copy: most break off at once, so all guesses but the first must be cheap."""
    most = curve.seconds(2) + _HARDLY_DEARER * curve.seconds(1)
    return next((n for n in range(_FIRST_LENGTH, 1, -1) if curve.seconds(1 + n) <= most), 1)


def kept_back(curve: VerifyCurve, stake: float) -> float:
    """Return what free drafts may not lose of a stake, in tokens: where passes are cheap, less is enough for them.

    A draft model may lose it all, since it has a prompt to read first.
    """
    price = curve.seconds(1 + _FIRST_GUESSES) / curve.seconds(1) - 1
    return stake - min(stake, max(_LEAST_FREE, price))


def run_trust(run: int, curve: VerifyCurve) -> float:
    """Return what may be lost, in tokens, after so many guesses that came true in a row.

    Where wide passes have an aftermath, none could be afforded without it.
    """
    return min(RUN_TOKENS + curve.aftermath / curve.seconds(1), max(0, run - _BY_CHANCE) / 2)


class Stake:
    """The time an answer took and saved, and what the running round has spent of its stake; all in seconds."""

    def __init__(self) -> None:
        self.tokens = STAKE_TOKENS
        """What an answer may lose before it has saved anything."""
        self._lengths = {False: STAKE_TOKENS / _LENGTH_SHARE, True: _HOLE_LENGTH}
        """Tokens that an answer is expected to have, and what fills a hole."""
        self._fills_hole = False
        self.begin(0)

    @property
    def _length(self) -> float:
        return self._lengths[self._fills_hole]

    def begin(self, said: int, *, fills_hole: bool = False) -> None:
        """Start an answer; take how many tokens the last one had, 0 for none: the next like it has as many.

        The last one counts half, in a geometric mean: short answers weigh as much as long ones.
        """
        if said:
            self._lengths[self._fills_hole] = min(math.sqrt(self._length * said), STAKE_TOKENS / _LENGTH_SHARE)
        self._fills_hole = fills_hole
        self.tokens = max(_LEAST_TOKENS, (_HOLE_SHARE if fills_hole else _LENGTH_SHARE) * self._length)
        self._trust = _TRUST_SHARE * self.tokens
        self._has_lent = False
        self.seconds = 0.0
        self.saved = 0.0
        """Against plain decoding; negative when it lost."""
        self.spent = 0.0
        self.ahead = 0.0
        """Of a pass that was asked for, and may be made in this round."""

    def left(self, one: float) -> float:
        """Return what may be lost now, where a pass of one token takes `one`.

        Part of what was saved in this answer, or else, with what was lost before, a small share of its time.
        """
        risked = self.saved if self.saved < 0 else _SAVINGS_SHARE * self.saved
        return self.tokens * one + STAKE_SHARE * self.seconds + risked - self.spent

    def trust(self, proof: float) -> float:
        """Return what may be lost besides, in tokens, where that is not to be expected; see `run_trust` for `proof`."""
        return max(0.0, self._trust - proof)

    def rest(self, said: int) -> float:
        """Return how many tokens are expected to come: as many as in the last answers, or half of what was `said`."""
        return max(self._length - said, said / 2, _LEAST_REST)

    def lends(self, reading: float, worth: float, one: float) -> bool:
        """Let this answer lose more, once, if a draft model can read the prompt for that; tell whether it can.

        `reading` takes so many seconds, a pass of one token `one`, and drafts then are `worth` so many tokens. What
        fills a hole is over too soon.
        """
        if self._has_lent or self._fills_hole or reading >= one * min(worth, _LENT_TO_READ + self.left(one) / one):
            return False
        self.tokens += LOAN_TOKENS
        self._has_lent = True
        return True

    def spend_ahead(self) -> None:
        """Count the pass that was asked for: what a round spends before its draft is checked is part of its stake."""
        self.spent += self.ahead
        self.ahead = 0.0

    def end_round(self, seconds: float, saved: float) -> None:
        """Take in what a round took and saved."""
        self.seconds += seconds
        self.saved += saved
        self.spent = 0.0
