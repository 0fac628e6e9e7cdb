"""Fastest numbers of threads for one-token and for wide passes: on most machines all cores, but not on every one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.engine.costs.timer import Timer, Tunable
from app.engine.costs.tuned import Setting
from models.system.machine import physical_cores

WIDE = 8
"""Width of the pass by which the threads of wide passes are chosen."""
_MOST_COUNTS = 8
_GAIN = 0.03
"""Least gain of another number of threads; less is noise."""
_STARVED, _STARVED_SECONDS = 3.0, 0.005
"""Ratio, and seconds, by which an idle processor is never slower with all of its cores than with some."""


@dataclass(frozen=True, slots=True)
class ThreadPrice:
    """Costs of passes with a number of threads."""

    threads: int
    one_token: float
    """Seconds of a one-token pass."""
    wide: float | None
    """Seconds of a pass over `WIDE` tokens; None where the model takes no such pass."""


def thread_costs(model: Tunable, timer: Timer, counts: Sequence[int], seconds: float) -> list[ThreadPrice]:
    """Return the costs for each number of threads; the model keeps the last one."""
    measured_costs = []
    for threads in counts:
        model.use_threads(threads, threads)
        found = timer.measured_costs(model, (1, WIDE), seconds / len(counts))
        measured_costs.append(ThreadPrice(threads, found[1], found.get(WIDE)))
    return measured_costs


def thread_counts(given: int) -> list[int]:
    """Return the numbers of threads to try: the user's, or else all up to one for each physical core."""
    return [given] if given else spread(physical_cores())


def spread(cores: int) -> list[int]:
    """Return all counts up to `cores`, or at most nine spread over them, `cores` always the last."""
    if cores <= _MOST_COUNTS:
        return list(range(1, cores + 1))
    return sorted({max(1, round(cores * step / _MOST_COUNTS)) for step in range(1, _MOST_COUNTS)} | {cores - 1, cores})


def starved(measured_costs: Sequence[ThreadPrice]) -> bool:
    """Tell whether other programs hold the cores: llama.cpp's threads then wait for each other at every step."""
    best, last = min(measured_cost.one_token for measured_cost in measured_costs), measured_costs[-1].one_token
    return last > _STARVED * best and last - best > _STARVED_SECONDS


def quickest_threads(measured_costs: Sequence[ThreadPrice], default: Setting) -> Setting:
    """Return a setting with the fastest threads for one-token and for wide passes, each only if it gains."""
    narrow = {measured_cost.threads: measured_cost.one_token for measured_cost in measured_costs}
    wide = {
        measured_cost.threads: measured_cost.wide for measured_cost in measured_costs if measured_cost.wide is not None
    }
    return replace(
        default, threads=_quickest(narrow, default.threads), batch_threads=_quickest(wide, default.batch_threads)
    )


def _quickest(measured_costs: Mapping[int, float], default: int) -> int:
    threads = min(measured_costs, key=lambda count: measured_costs[count], default=default)
    return (
        threads
        if threads in measured_costs and measured_costs[threads] < measured_costs[default] * (1 - _GAIN)
        else default
    )
