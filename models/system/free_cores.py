"""Cores that other programs leave free."""

import time
from collections.abc import Callable
from functools import cache

import psutil

from models.system.machine import physical_cores
from models.system.other_programs import OtherPrograms

_EVERY = 0.25
"""Seconds between two measurements: enough clock ticks of each core to tell a tenth of it."""
_MEMORY = 0.5
"""Weight of the past in the share that other programs hold."""


class FreeCores:
    """Number of cores that other programs leave free, measured a few times a second as it is asked for."""

    def __init__(
        self, cores: int, others: Callable[[], float] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the cores of the machine; `others` returns the share of them that other programs held lately."""
        self._cores = self._count = cores
        self._others = others or OtherPrograms()
        self._clock = clock
        self._share = 0.0
        self._at = clock()

    def count(self) -> int:
        """Return the whole cores that are free, at least 1."""
        if (now := self._clock()) - self._at >= _EVERY:
            # After a pause the past says nothing.
            memory = _MEMORY ** ((now - self._at) / _EVERY)
            self._share = memory * self._share + (1 - memory) * self._others()
            self._count = max(1, round(self._cores * (1 - self._share)))
            self._at = now
        return self._count


@cache
def free_cores() -> FreeCores | None:
    """Return the free cores of this machine; None where this process may use only some of its cores.

    The system counts the load of all its cores, so it says nothing of a few.
    """
    cores = psutil.cpu_count(logical=False) or 1
    return FreeCores(cores) if 1 < cores == physical_cores() else None
