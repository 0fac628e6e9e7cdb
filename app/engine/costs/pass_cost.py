"""Pass cost T(w): seconds of one pass over w tokens on this machine, measured once and corrected by real passes.

The curve is jagged (kernels work in blocks of four rows, some processors and GPUs have cliffs), so it is a table of
measured widths, never a fitted line. A table made at one depth of the context is corrected by every real pass: by a
factor common to all widths, and by one for each width, which fades while the width is unused. A table that was wrong
from the start is detected by votes: see `cost_drift`. A table from a busy machine is corrected by two passes: no
other program can make a pass faster.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from app.engine.costs.cost_drift import FADE, CostDrift
from app.engine.costs.graph_switch_cost import DISTURBED, Aftermath
from app.engine.decoding.round import Clock
from models.base import LanguageModel

QUICK_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 32)
"""Widths that a first load measures; between them the cost is interpolated."""
DRAFT_WIDTHS = (1, 2, 4, 16)
"""Widths for a draft model: single steps, and copies that it checks."""
HEAD_WIDTHS = (1, 2, 4, 8, 16, 64)
"""Widths for a draft head, with a row for the last token alone."""
READ_WIDTHS = (64, 512)
"""Widths for a draft model that reads a long text, with a row for the last token alone: cheaper for each token."""
_REPEATS = 5
"""Passes of each width, if there is time."""
_ATTEMPTS = 3
"""Most measurements of a table, each because the previous one was implausible."""
_DIP, _DIP_OF_ONE = 1.6, 1.15
"""Most time of a pass over that of a wider one, for wide passes and for one-token passes.

Kernels work in blocks, so three rows can cost more than four; one row never costs more than two.
"""
_COMMON, _OWN = 0.08, 0.12
"""Weight of a new observation in the common factor, and in a width's own."""
_STALL = 3.0
"""Time over expected time from which a pass counts as stalled: it waited for another program or the machine slept."""
_DISPROVED = 0.6
"""Time over expected time below which two passes in a row disprove the table."""
_CONFIRMED = 0.95
"""A width's own factor from which real passes confirm its entry."""
_LISTED = 64
"""Widths whose costs are cached; a draft model's table has wider ones, for reading."""


class VerifyCurve:
    """Table of T(w), from measurements and from every real pass since."""

    def __init__(self, seconds: Mapping[int, float], *, disturbed: bool = False) -> None:
        """Take measured seconds by width; width 1 must be among them.

        `disturbed`: other programs held the cores meanwhile.
        """
        self.measured: dict[int, float] = {}
        """Seconds by width as measured, ascending."""
        self._disturbed = disturbed
        self._entries: dict[int, float] = {}
        self.add(seconds)
        self._common = 1.0
        self._own: dict[int, float] = {}
        self._drift = CostDrift()
        self._aftermath = Aftermath()
        self._last = 1.0

    @property
    def one_is_due(self) -> bool:
        """Tell whether a one-token pass is due for measurement; all other costs are relative to it."""
        return self._drift.one_is_due

    @property
    def disturbed(self) -> bool:
        """Tell whether other programs slowed the measurement down, as far as is known by now."""
        return self._disturbed or self.seconds(1) < _DISPROVED * self.measured[1]

    def add(self, seconds: Mapping[int, float]) -> None:
        """Take measurements of further widths, or newer ones."""
        self.measured = dict(sorted({**self.measured, **seconds}.items()))
        self._set_entries(seconds)

    def _set_entries(self, seconds: Mapping[int, float]) -> None:
        """Set entries of the table; those of other widths stay."""
        self._entries |= seconds
        self._table = [self._interpolated(width) for width in range(1, max(self._entries) + 1)]
        self._costs: list[float] = []

    def seconds(self, width: int) -> float:
        """Return the expected seconds of a pass over `width` tokens now."""
        # Looked up a hundred times in each round.
        measured_costs = self._costs or self._list_costs()
        return measured_costs[width - 1] if width <= len(measured_costs) else self._cost(width)

    @property
    def least(self) -> float:
        """Return the seconds of the cheapest pass over more than one token."""
        return min((self._costs or self._list_costs())[1:], default=self.seconds(2))

    @property
    def aftermath(self) -> float:
        """Return the extra seconds of later one-token passes if a wide pass comes now."""
        return self.aftermath_ratio * self.seconds(1) if self._aftermath.is_over else 0.0

    @property
    def aftermath_ratio(self) -> float:
        """Return the extra time of one-token passes after a wide pass, over T(1)."""
        return self._aftermath.tokens

    def extra(self, width: int) -> float:
        """Return the seconds of a pass over those of a one-token pass, extra time after it included."""
        return self.seconds(width) - self.seconds(1) + self.aftermath

    def _list_costs(self) -> list[float]:
        one, wide = self._common * self._drift.of(1), self._common * self._drift.of(2)
        self._costs = [one * self._table[0], *[wide * base for base in self._table[1:_LISTED]]]
        for width, own in self._own.items():
            if width <= len(self._costs):
                self._costs[width - 1] *= own
        return self._costs

    def _cost(self, width: int) -> float:
        return self._common * self._drift.of(width) * self._own.get(width, 1.0) * self._table_entry(width)

    def _table_entry(self, width: int) -> float:
        widest = len(self._table)
        # Beyond the table each further token costs as much as in the widest measured pass.
        return self._table[width - 1] if width <= widest else self._table[-1] * width / widest

    def ratio(self, width: int) -> float:
        """Return T(width) / T(1)."""
        return self.seconds(width) / self.seconds(1)

    def begin(self) -> None:
        """Start anew after unobserved passes, such as those of a prompt."""
        self._aftermath.begin()

    def observe(self, width: int, seconds: float) -> float:
        """Learn from a real pass; return its seconds without a wait for another program."""
        if seconds <= 0:
            return seconds
        if max(self._last, seconds / self.seconds(width)) < _DISPROVED and not self._drift.knows(width):
            self._disprove(width, seconds)
        expected = self.seconds(width) * (self._aftermath.factor if width == 1 else 1.0)
        seconds = self._own_seconds(width, seconds, expected)
        self._aftermath.observe(width, seconds)
        # The influence of a single pass is capped as well.
        ratio = min(max(seconds / expected, 0.5), 2.0)
        self._drift.observe(width, seconds / expected)
        for other in self._own:
            self._own[other] **= FADE
        self._common *= ratio**_COMMON
        if width > 1:
            self._own[width] = self._own.get(width, 1.0) * ratio**_OWN
        self._costs = []
        return seconds

    def _disprove(self, width: int, seconds: float) -> None:
        """Correct the table by a pass that was faster than its machine can be by the table.

        Entries that no real pass has confirmed count as slowed down alike where the one-token pass was: all were
        measured in turns. Where one cost less than the one-token pass, that alone was slowed down.
        """
        ratio = seconds / self.seconds(width)
        alike = ratio if width == 1 else min(1.0, seconds / self.seconds(1))
        one, corrected = self._entries[1], {width: ratio * self._table_entry(width)}
        for each in self._entries.keys() - {width}:
            if self._entries[each] >= one and self._own.get(each, 0.0) < _CONFIRMED:
                corrected[each] = alike * self._entries[each]
        self._disturbed = True
        self._set_entries(corrected)

    def _own_seconds(self, width: int, seconds: float, expected: float) -> float:
        """Return the expected seconds for a stalled pass among passes that did not stall, else the measured ones."""
        before, self._last = self._last, seconds / expected
        # Two stalls in a row mean a slower machine; with few observations the table itself may be wrong.
        return expected if before <= _STALL < self._last and self._drift.knows(width) else seconds

    def rescale(self, ratio: float) -> None:
        """Learn from several passes at once that took `ratio` times their expected time."""
        self._common *= min(max(ratio, 0.5), 2.0) ** _COMMON
        self._costs = []

    def _interpolated(self, width: int) -> float:
        if width in self._entries:
            return self._entries[width]
        below = max(known for known in self._entries if known < width)
        above = min(known for known in self._entries if known > width)
        share = (width - below) / (above - below)
        return self._entries[below] + share * (self._entries[above] - self._entries[below])


def measure(
    model: LanguageModel,
    clock: Clock,
    widths: Sequence[int] = QUICK_WIDTHS,
    seconds: float = 2.0,
    rows: int | None = None,
) -> dict[int, float]:
    """Return the median seconds of passes of each width after the cache's content, which is restored.

    `rows` logits rows are computed in each pass; None: one for each token. A cache that is full or can't rewind is
    emptied before and after.
    Widths that do not fit the model or its context are left out. Every other width is timed once, and again in turns
    until the time is used up, so that a slow moment affects all of them.
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
    """Return the seconds of `measure`, measured anew while the table is implausible for an idle machine.

    Another program can only slow passes down, so the fastest measurement of each width counts.
    """
    best = measure(model, clock, widths, seconds, rows)
    for _ in range(_ATTEMPTS - 1):
        if is_steady(best):
            break
        again = measure(model, clock, widths, seconds, rows)
        best = {width: min(taken, again.get(width, taken)) for width, taken in best.items()}
    return best


def is_steady(seconds: Mapping[int, float]) -> bool:
    """Tell whether a table is plausible for an idle machine: no pass takes much longer than a wider one."""
    wider = math.inf
    for width, taken in sorted(seconds.items(), reverse=True):
        if taken > (_DIP if width > 1 else _DIP_OF_ONE) * wider:
            return False
        wider = min(wider, taken)
    return True


def timed_passes(
    model: LanguageModel, clock: Clock, widths: Sequence[int], repeats: int, rows: int | None = None
) -> Iterator[tuple[int, float]]:
    """Yield (width, seconds) of each pass, in turns, `repeats` passes of each width; arguments as for `measure`."""
    # A memory that can't rewind would keep the timed tokens as if they were text, so it is emptied.
    if model.rewind_support.limit is not None or model.length == model.context_size:
        model.rewind(0)
    most = model.max_rows if rows is None else model.batch_size
    widest = min(most, model.batch_size, model.context_size - model.length)
    fitting = [width for width in widths if width <= widest]
    last = 0
    for _ in range(repeats):
        for width in fitting:
            # Not timed: it touches memory first, llama.cpp prepares a pass anew when the width changes, and CUDA
            # records the next one. Passes of plain decoding have none of these costs.
            for _ in range(DISTURBED if last == 0 or width == 1 != last else 0):
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
