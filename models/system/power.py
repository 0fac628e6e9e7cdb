"""Power of the machine: whether it runs on its battery, and the energy that its processor takes."""

from pathlib import Path
from typing import Any

import psutil

_POWERCAP = Path("/sys/class/powercap")
"""Where Linux has the energy counters of processors (RAPL)."""
_MICRO = 1e-6


def on_battery() -> bool | None:
    """Return whether the machine runs on its battery now; None where it has none, or does not tell."""
    sensors: Any = getattr(psutil, "sensors_battery", None)
    try:
        battery = sensors() if sensors is not None else None
    except (OSError, RuntimeError, ValueError):
        return None
    # Not knowing whether it is plugged in is not being on battery.
    return None if battery is None or battery.power_plugged is None else not battery.power_plugged


class EnergyMeter:
    """Counter of the energy that all processor packages take, whichever program they work for."""

    def __init__(self, folder: Path = _POWERCAP) -> None:
        """Begin to count; on a system without counters, or without the right to read them, nothing is counted."""
        self._packages: list[tuple[Path, int]] = []
        for package in sorted(folder.glob("*-rapl:*")):
            # "intel-rapl:0:1" is a part of the package "intel-rapl:0".
            if package.name.count(":") == 1 and (most := _whole(package / "max_energy_range_uj")) is not None:
                self._packages.append((package / "energy_uj", most))
        self._before = self._counters()

    def joules(self) -> float | None:
        """Return the joules since the last call, or since the start; None where nothing is counted.

        A counter that began anew between two calls is seen, unless it did so twice: it takes a minute at least.
        """
        before, self._before = self._before, self._counters()
        if not before or not self._before:
            return None
        pairs = zip(before, self._before, self._packages, strict=True)
        return sum((now - then) % (most + 1) for then, now, (_, most) in pairs) * _MICRO

    def _counters(self) -> list[int]:
        """Return the microjoules of all packages; [] where one of them can't be read."""
        found = [_whole(path) for path, _ in self._packages]
        return [] if None in found else [count for count in found if count is not None]


def _whole(path: Path) -> int | None:
    """Return the number in a file of the system; None where there is none, or where it must not be read."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
