"""Polling of the suffix index: in every round, or less often where polls cost time and find nothing.

Indexing the emitted tokens and looking up a continuation takes some tenths of a millisecond: negligible beside a pass
of a large model, two or three hundredths of a pass of a tiny model or of a shared pass, and a tenth of one on a fast
GPU. The longer polls find nothing, the longer the pause, so that a copy is noticed after a fixed share of the time
without one. The more a poll costs, the sooner and the longer the pause grows.
"""

from app.engine.constants import DEAR_POLL, IN_VAIN, MOST_IN_VAIN, NEW_POLL, POLL_SHARE, QUICKEST
from app.engine.decoding.round import Round
from drafters.base import Draft
from models.base import common_prefix


class SuffixPolling:
    """Costs and results of polls of the suffix index, and the round of the next one."""

    def __init__(self) -> None:
        self.run = 0
        """Matching tokens of a copy in a row, verified or not."""
        self._seconds = 0.0
        self._in_vain = 0
        self._rounds = self._pause = 1
        self._follows = False

    def begin(self) -> None:
        """Start an answer, with a poll; earlier results count half, as the text is another."""
        self._in_vain //= 2
        self._rounds, self._follows, self.run = self._pause, False, 0

    @property
    def is_due(self) -> bool:
        """Return whether to poll in this round: at the end of a pause, or after a draft whose first token matched."""
        return self._follows or self._rounds >= self._pause

    def observe(self, round_: Round, proposed: Draft | None, throughput: float, *, model_ran: bool = False) -> None:
        """Count a round, at `throughput` tokens a second, and its draft as proposed; None: no poll.

        A round without drafting does not end a copy. The time of a draft model that ran is not the poll's.
        """
        if proposed is None:
            self._rounds += 1
            return
        right = common_prefix(proposed.tokens, round_.emitted)
        unbroken = right > 0 and right in (len(round_.emitted), len(proposed.tokens))
        self.run = self.run + right if unbroken else right // 2
        verified = len(round_.draft.tokens) > 0
        found = round_.accepted if proposed.offers else right
        self._in_vain = 0 if verified and found else min(self._in_vain + 1, MOST_IN_VAIN)
        if not verified and not model_ran:
            # The cost of a verified draft is part of its gain already.
            self._seconds += (round_.draft_seconds - self._seconds) * (NEW_POLL if self._seconds else 1.0)
        dearness = self._seconds * throughput / POLL_SHARE
        growth = min(max(1.0, dearness / DEAR_POLL), QUICKEST) if dearness > 1 else 0.0
        self._pause = 1 + int(growth * self._in_vain / IN_VAIN)
        self._rounds, self._follows = 1, right > 0
