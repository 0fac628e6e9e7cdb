"""Share of the cores that other programs hold."""

import psutil

_NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")
"""Times of `psutil.cpu_times` that are no program's, or counted twice."""


class OtherPrograms:
    """Share of the cores that other programs hold, since the last call."""

    def __init__(self) -> None:
        """Begin to measure."""
        self._process = psutil.Process()
        self._before = self._times()

    def __call__(self) -> float:
        """Return the share, 0 to 1."""
        before, self._before = self._before, self._times()
        busy, own, idle = (now - then for now, then in zip(self._before, before, strict=True))
        total = busy + idle
        return min(1.0, max(0.0, busy - own) / total) if total > 0 else 0.0

    def _times(self) -> tuple[float, float, float]:
        """Return the processor seconds of all programs, of this one, and of none."""
        times, own = psutil.cpu_times()._asdict(), self._process.cpu_times()
        idle = times["idle"] + times.get("iowait", 0.0)
        busy = sum(taken for name, taken in times.items() if name not in _NOT_BUSY)
        # Processes that this one started and that have ended are its own work.
        return busy, own.user + own.system + own.children_user + own.children_system, idle
