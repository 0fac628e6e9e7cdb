"""What a pass costs on this machine: T(w), seconds for one pass over w tokens, measured and kept fresh.

The curve is jagged (kernels work in blocks of four rows, some processors and cards have cliffs), so it is a table of
measured widths, never a fitted line. A table made at one depth of the context is corrected by every real pass: a
factor common to all widths, and one of each width's own, which fades while the width goes unused. A table that was
wrong from the start is told from that by votes: see `_Levels`.
"""

import math
import statistics
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from app.engine.round import Clock
from models.base import LanguageModel

QUICK_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 32)
"""Widths that a first load measures; between them the cost is interpolated."""
DRAFT_WIDTHS = (1, 2, 4, 16)
"""The same for a draft model: single steps, and copies that it checks."""
READ_WIDTHS = (64, 512)
"""What a draft model reads at once, of a long text: a row for the last token alone, and quicker than in proportion."""
_REPEATS = 5
"""Passes of each width, time allowing."""
_ATTEMPTS = 3
"""Measurings of a table, each when the one before can't be right."""
_DIP, _DIP_OF_ONE = 1.6, 1.15
"""How much longer than a wider pass a pass can really take, and one of one token.

Kernels work in blocks, and three rows can cost more than four; one row never costs more than two.
"""
_COMMON, _OWN = 0.08, 0.12
"""Share of a new observation in the common factor, and in a width's own."""
_VOTES, _MOST_SEEN = 2, 15
"""Votes of the measured table on what passes take, and the most of real ones of one token; each wider one has one."""
_LATELY, _USUALLY = 3, 9
"""Last passes of a width whose median is its vote, and those whose median it was before they became dearer."""
_OFTEN, _SELDOM = 4, 24
"""Passes after which one of one token is due: as long as few were seen, and later."""
_STALL = 3.0
"""How many times longer than expected a pass takes that waits for another program, or sleeps with the machine."""
_FADE = 0.995
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
        self._left *= _FADE

    def rescale(self, ratio: float) -> None:
        """Take the machine to have changed."""
        self._seen = deque((ratio * seen for seen in self._seen), _USUALLY)
        self._lately *= ratio
        self._usually *= ratio


class _Levels:
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


class VerifyCurve:
    """T(w), from measurements and from every real pass since."""

    def __init__(self, seconds: Mapping[int, float]) -> None:
        """Take measured seconds by width; width 1 must be among them."""
        self.measured: dict[int, float] = {}
        """The table as measured: seconds by width, ascending."""
        self.add(seconds)
        self._common = 1.0
        self._own: dict[int, float] = {}
        self._levels = _Levels()
        self._stalled = False

    @property
    def one_is_due(self) -> bool:
        """Tell whether it is long since a pass of one token was seen, which all others are judged by."""
        return self._levels.one_is_due

    def add(self, seconds: Mapping[int, float]) -> None:
        """Take measurements of further widths, or newer ones."""
        self.measured = dict(sorted({**self.measured, **seconds}.items()))
        self._table = [self._interpolated(width) for width in range(1, max(self.measured) + 1)]
        self._prices: dict[int, float] = {}

    def seconds(self, width: int) -> float:
        """Return the expected seconds of a pass over `width` tokens now."""
        # Looked up a hundred times a round.
        if (price := self._prices.get(width)) is None:
            price = self._prices[width] = self._price(width)
        return price

    def _price(self, width: int) -> float:
        widest = len(self._table)
        # Beyond the table a pass goes on at the price of its widest part.
        base = self._table[width - 1] if width <= widest else self._table[-1] * width / widest
        return self._common * self._levels.of(width) * self._own.get(width, 1.0) * base

    def ratio(self, width: int) -> float:
        """Return T(width) / T(1)."""
        return self.seconds(width) / self.seconds(1)

    def observe(self, width: int, seconds: float) -> float:
        """Learn from a real pass; return what of its seconds was its own, and not a wait for another program."""
        if seconds <= 0:
            return seconds
        expected = self.seconds(width)
        seconds = self._own_seconds(width, seconds, expected)
        # What one pass tells is capped all the same.
        ratio = min(max(seconds / expected, 0.5), 2.0)
        self._levels.observe(width, seconds / expected)
        for other in self._own:
            self._own[other] **= _FADE
        self._common *= ratio**_COMMON
        if width > 1:
            self._own[width] = self._own.get(width, 1.0) * ratio**_OWN
        self._prices.clear()
        return seconds

    def _own_seconds(self, width: int, seconds: float, expected: float) -> float:
        """Return what is expected of a pass that stalled, alone among others that did not."""
        stalled_before, self._stalled = self._stalled, seconds > _STALL * expected
        # Two in a row are a machine that has changed, and where little was seen the table may be what is wrong.
        alone = self._stalled and not stalled_before and self._levels.knows(width)
        return expected if alone else seconds

    def rescale(self, ratio: float) -> None:
        """Learn from several passes at once, that took `ratio` times what was expected of them."""
        self._common *= min(max(ratio, 0.5), 2.0) ** _COMMON
        self._prices.clear()

    def _interpolated(self, width: int) -> float:
        if width in self.measured:
            return self.measured[width]
        below = max(known for known in self.measured if known < width)
        above = min(known for known in self.measured if known > width)
        share = (width - below) / (above - below)
        return self.measured[below] + share * (self.measured[above] - self.measured[below])


def measure(
    model: LanguageModel,
    clock: Clock,
    widths: Sequence[int] = QUICK_WIDTHS,
    seconds: float = 2.0,
    rows: int | None = None,
) -> dict[int, float]:
    """Return the median seconds of passes of each width, taken where the cache stands and leaving it as it is.

    `rows` are wanted of each; None: as many as there are tokens. A cache that is full, or that can't take back a pass,
    is empty then, and before.
    Widths that the model or the room left in its context can't take are left out. Every other is timed once, and again
    in turn, so that a slow moment hits them all, as long as the time given is not used up.
    """
    times: dict[int, list[float]] = {}
    started = clock()
    for width, taken in timed_passes(model, clock, widths, _REPEATS, rows):
        if clock() - started > seconds and width in times:
            break
        times.setdefault(width, []).append(taken)
    return {width: statistics.median(taken) for width, taken in sorted(times.items())}


def measure_steady(
    model: LanguageModel,
    clock: Clock,
    widths: Sequence[int] = QUICK_WIDTHS,
    seconds: float = 2.0,
    rows: int | None = None,
) -> dict[int, float]:
    """Return the same from a machine left alone, as far as it can be had: measured anew while it was not.

    Another program can only make passes slower, so that of each width the quickest counts.
    """
    best = measure(model, clock, widths, seconds, rows)
    for _ in range(_ATTEMPTS - 1):
        if is_steady(best):
            break
        again = measure(model, clock, widths, seconds, rows)
        best = {width: min(taken, again.get(width, taken)) for width, taken in best.items()}
    return best


def is_steady(seconds: Mapping[int, float]) -> bool:
    """Tell whether a table can be that of a machine left alone: no pass takes much longer than a wider one."""
    wider = math.inf
    for width, taken in sorted(seconds.items(), reverse=True):
        if taken > (_DIP if width > 1 else _DIP_OF_ONE) * wider:
            return False
        wider = min(wider, taken)
    return True


def timed_passes(
    model: LanguageModel, clock: Clock, widths: Sequence[int], repeats: int, rows: int | None = None
) -> Iterator[tuple[int, float]]:
    """Yield (width, seconds) of pass after pass, in turns, `repeats` of each width; for all else see `measure`."""
    # What stays after a pass that can't be taken back would be taken for the text that was there.
    if model.rewind_support.limit is not None or model.length == model.context_size:
        model.rewind(0)
    most = model.max_rows if rows is None else model.batch_size
    widest = min(most, model.batch_size, model.context_size - model.length)
    fitting = [width for width in widths if width <= widest]
    # The first pass touches memory that no later one has to fetch.
    _seconds_of_pass(model, 1, 1, clock)
    last = 1
    for _ in range(repeats):
        for width in fitting:
            if width == 1 != last:
                # llama.cpp prepares a pass anew when its width changes, which those of plain decoding are spared.
                _seconds_of_pass(model, 1, 1, clock)
            last = width
            yield width, _seconds_of_pass(model, width, rows or width, clock)


def _seconds_of_pass(model: LanguageModel, width: int, rows: int, clock: Clock) -> float:
    depth = model.length
    token = model.vocab.bos or 0
    started = clock()
    try:
        model.decode([token] * width, rows=rows)
        return clock() - started
    finally:
        model.rewind(depth)
