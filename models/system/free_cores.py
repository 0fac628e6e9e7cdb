"""Cores that other programs leave free."""

import time
from collections.abc import Callable
from functools import cache

import psutil

from models.system.machine import physical_cores
from models.system.other_programs import OtherPrograms
from models.system.power import on_battery

_EVERY = 0.25
"""Seconds between two measurements: enough clock ticks of each core to tell a tenth of it."""
_POWER_EVERY = 5.0
"""Seconds between two looks at the power supply."""
_MEMORY = 0.5
"""Weight of the past in the share that other programs hold."""


class FreeCores:
    """Number of cores that other programs leave free, measured a few times a second as it is asked for."""

    def __init__(
        self,
        cores: int,
        others: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
        battery: Callable[[], bool | None] = on_battery,
    ) -> None:
        """Take the cores of the machine; `others` returns the share of them that other programs held lately.

        `battery` returns whether the machine runs on its battery.
        """
        self._cores = self._count = cores
        self._others = others or OtherPrograms()
        self._clock = clock
        self._battery = battery
        self._share = 0.0
        self._at = clock()
        self._is_on_battery, self._power_at = bool(battery()), self._at

    def count(self) -> int:
        """Return the whole cores that are free, at least 1."""
        if (now := self._clock()) - self._at >= _EVERY:
            # After a pause the past says nothing.
            memory = _MEMORY ** ((now - self._at) / _EVERY)
            self._share = memory * self._share + (1 - memory) * self._others()
            self._count = max(1, round(self._cores * (1 - self._share)))
            self._at = now
        return self._count

    @property
    def on_battery(self) -> bool:
        """Whether the machine runs on its battery, as it did some seconds ago."""
        if (now := self._clock()) - self._power_at >= _POWER_EVERY:
            self._is_on_battery, self._power_at = bool(self._battery()), now
        return self._is_on_battery


class FewerOnBattery:
    """Number of free cores, at most some of them while the machine runs on its battery."""

    def __init__(self, free: FreeCores, most: int) -> None:
        """Take the free cores, and the most that are used on battery."""
        self._free = free
        self._most = most

    def count(self) -> int:
        """Return the cores to use, at least 1."""
        free = self._free.count()
        return min(free, self._most) if self._free.on_battery else free


Cores = FreeCores | FewerOnBattery
"""What tells how many threads to use."""


def free_cores(on_battery: int | None = None) -> Cores | None:
    """Return the free cores of this machine, at most `on_battery` of them without mains; None where that is unknown.

    The system counts the load of all its cores, so it says nothing of a process that may use only some of them.
    """
    free = _of_this_machine()
    return free if free is None or on_battery is None else FewerOnBattery(free, on_battery)


@cache
def _of_this_machine() -> FreeCores | None:
    cores = psutil.cpu_count(logical=False) or 1
    return FreeCores(cores) if 1 < cores == physical_cores() else None
