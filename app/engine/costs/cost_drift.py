"""Drift of the table of pass costs as a whole, voted for by real passes."""

import statistics
from collections import deque

_VOTES, _MOST_SEEN = 2, 15
"""Votes of the measured table, and the most votes of real one-token passes; each wider width has one vote."""
_LATELY, _USUALLY = 3, 9
"""Last passes of a width whose median is its vote, and those whose median is its vote before a rise of its cost."""
_OFTEN, _SELDOM = 4, 24
"""Rounds after which a one-token pass is due: while few were measured, and later."""
FADE = 0.995
"""Rest of a width's own factor after a pass of another width: a cost once measured too high is measured again."""


class _Vote:
    """Vote of one wide width on the table's error, from its last passes."""

    def __init__(self) -> None:
        self._seen = deque[float](maxlen=_USUALLY)
        self._lately = self._usually = self._left = 1.0

    @property
    def value(self) -> float:
        """Return the vote now: after a rise it falls back while the width is unused, else no draft would try it."""
        rise = self._lately / self._usually
        return self._usually * rise**self._left if rise > 1 else self._lately

    def see(self, ratio: float) -> None:
        """Count a pass."""
        self._seen.append(ratio)
        self._lately = statistics.median(list(self._seen)[-_LATELY:])
        self._usually = statistics.median(self._seen)
        self._left = 1.0

    def fade(self) -> None:
        """Count a pass of another width."""
        self._left *= FADE

    def rescale(self, ratio: float) -> None:
        """Apply a change of the whole machine's speed."""
        self._seen = deque((ratio * seen for seen in self._seen), _USUALLY)
        self._lately *= ratio
        self._usually *= ratio


class CostDrift:
    """Error factors of the table for one-token passes and for wider ones: medians of the votes of real passes.

    A table measured while another program ran can be wrong by a factor. Where all rounds draft, or none does, the
    expected costs alone would never show that.
    """

    def __init__(self) -> None:
        self._ones: deque[float] = deque(maxlen=_MOST_SEEN)
        self._wides: dict[int, _Vote] = {}
        self._one = self._wide = self._unseen = 1.0
        self._since_one = 0

    @property
    def one_is_due(self) -> bool:
        """Tell whether the last one-token pass was too long ago."""
        return self._since_one >= (_SELDOM if self._is_known else _OFTEN)

    @property
    def _is_known(self) -> bool:
        return len(self._ones) > 2 * _VOTES

    def knows(self, width: int) -> bool:
        """Tell whether enough passes were measured to tell a slow pass from a slow machine."""
        return self._is_known and (width == 1 or len(self._wides) > _VOTES)

    def of(self, width: int) -> float:
        """Return the factor by which to correct the table's entry."""
        return self._wide if width > 1 else self._one

    def observe(self, width: int, ratio: float) -> None:
        """Count the vote of a pass that took `ratio` times what was expected of it."""
        if width > 1:
            self._wides.setdefault(width, _Vote()).see(ratio * self._wide)
            self._since_one += 1
        else:
            self._see_one(ratio * self._one)
            self._since_one = 0
        for other, vote in self._wides.items():
            if other != width:
                vote.fade()
        self._wide = statistics.median([self._unseen] * _VOTES + [vote.value for vote in self._wides.values()])

    def _see_one(self, vote: float) -> None:
        before = self._one
        self._ones.append(vote)
        self._one = statistics.median([1.0] * _VOTES + list(self._ones))
        if self._is_known:
            # The machine's speed has changed, so wider passes change too until they are measured.
            self._unseen *= self._one / before
            for wide in self._wides.values():
                wide.rescale(self._one / before)
        else:
            # A width that seems expensive is never tried again, so an unmeasured one counts as cheap as possible.
            self._unseen = min(1.0, self._one)
