"""How far a table of what passes cost is wrong as a whole: what real passes vote for."""

import statistics
from collections import deque

_VOTES, _MOST_SEEN = 2, 15
"""Votes of the measured table on what passes take, and the most of real ones of one token; each wider one has one."""
_LATELY, _USUALLY = 3, 9
"""Last passes of a width whose median is its vote, and those whose median it was before they became dearer."""
_OFTEN, _SELDOM = 4, 24
"""Passes after which one of one token is due: as long as few were seen, and later."""
FADE = 0.995
"""What is left of a width's own factor after a pass of another width: a price once seen too high is looked at again."""


class _Vote:
    """How far the table is wrong about one wide width: what its last passes say."""

    def __init__(self) -> None:
        self._seen = deque[float](maxlen=_USUALLY)
        self._lately = self._usually = self._left = 1.0

    @property
    def value(self) -> float:
        """What it says now: what became dearer goes back to what it was while unused, as nobody would try it."""
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
        """Take the machine to have changed."""
        self._seen = deque((ratio * seen for seen in self._seen), _USUALLY)
        self._lately *= ratio
        self._usually *= ratio


class CostDrift:
    """How far the table is wrong about passes of one token, and about wider ones: medians of what real passes vote for.

    A table taken while another program ran can be wrong by a factor, and where all rounds draft, or none does, nothing
    that is expected of them would ever show it.
    """

    def __init__(self) -> None:
        self._ones: deque[float] = deque(maxlen=_MOST_SEEN)
        self._wides: dict[int, _Vote] = {}
        self._one = self._wide = self._unseen = 1.0
        self._since_one = 0

    @property
    def one_is_due(self) -> bool:
        """Tell whether a pass of one token has not been seen for long."""
        return self._since_one >= (_SELDOM if self._is_known else _OFTEN)

    @property
    def _is_known(self) -> bool:
        return len(self._ones) > 2 * _VOTES

    def knows(self, width: int) -> bool:
        """Tell whether enough passes were seen to tell a slow one from a slow machine."""
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
            # The machine has changed: wider passes with it, until they are seen.
            self._unseen *= self._one / before
            for wide in self._wides.values():
                wide.rescale(self._one / before)
        else:
            # Nobody tries what is taken for dear: as long as it may be, wide passes are as cheap as can be thought.
            self._unseen = min(1.0, self._one)
