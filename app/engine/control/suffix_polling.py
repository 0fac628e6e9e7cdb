"""How often the suffix index is polled: in every round, or where that costs time and finds nothing, less often.

To index what was emitted and look up its continuation takes some tenths of a millisecond: nothing beside a pass of a
large model, two or three hundredths of one of a tiny model, or of a pass that several answers share, and a tenth of one
on a quick GPU. The longer nothing was worth verifying, the longer the pause, so that a copy is noticed after a share of
the time that there was none; and the dearer a poll, the sooner the pause grows, and the longer it gets.
"""

from app.engine.decoding.round import Round
from drafters.base import Draft
from models.base import common_prefix

POLL_SHARE = 0.01
"""Tokens' time that a poll may take and be had in every round."""
_IN_VAIN, _MOST_IN_VAIN = 8, 56
"""Polls in vain that make the pause, the rounds from one poll to the next, a round longer; and the most that count."""
_DEAR, _QUICKEST = 2, 4
"""Pauses grow as much quicker as a poll is dearer than this many of those that may be had, and no more than so much."""
_NEW = 0.1
"""Weight of the latest poll in the cost of one."""


class SuffixPolling:
    """What polls of the suffix index cost and found, and whether one is due."""

    def __init__(self) -> None:
        self.run = 0
        """Tokens of a copy that were right one after the other, verified or not."""
        self._seconds = 0.0
        self._in_vain = 0
        self._rounds = self._pause = 1
        self._follows = False

    def begin(self) -> None:
        """Start an answer, with a poll: another text, of which half of what was seen tells something."""
        self._in_vain //= 2
        self._rounds, self._follows, self.run = self._pause, False, 0

    @property
    def is_due(self) -> bool:
        """Return whether to poll in this round: at the end of a pause, or after a draft whose first token was right."""
        return self._follows or self._rounds >= self._pause

    def observe(self, round_: Round, proposed: Draft | None, throughput: float, *, asked: bool = False) -> None:
        """Count a round, at so many tokens a second, and its draft as it was proposed; None: no poll.

        A copy does not break off in a round that was not to draft. A draft model that was `asked` takes its own time.
        """
        if proposed is None:
            self._rounds += 1
            return
        right = common_prefix(proposed.tokens, round_.emitted)
        unbroken = right > 0 and right in (len(round_.emitted), len(proposed.tokens))
        self.run = self.run + right if unbroken else right // 2
        verified = len(round_.draft.tokens) > 0
        self._in_vain = 0 if verified and right else min(self._in_vain + 1, _MOST_IN_VAIN)
        if not verified and not asked:
            # What a draft that is verified costs is part of what it gains.
            self._seconds += (round_.draft_seconds - self._seconds) * (_NEW if self._seconds else 1.0)
        dearness = self._seconds * throughput / POLL_SHARE
        growth = min(max(1.0, dearness / _DEAR), _QUICKEST) if dearness > 1 else 0.0
        self._pause = 1 + int(growth * self._in_vain / _IN_VAIN)
        self._rounds, self._follows = 1, right > 0
