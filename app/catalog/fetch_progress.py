"""Output of a download, and its progress line: size, speed and remaining time."""

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from app.catalog.words import plain, size

_WINDOW = 5.0
"""Seconds over which the speed is measured: a connection changes, and a mean over an hour hides that."""
_PAUSE = 0.1
_MINUTE, _HOUR = 60, 3600


class Output(Protocol):
    """Takes what a download says: a terminal, or a screen. `progress` may raise `FetchStopped`."""

    def progress(self, text: str) -> None:
        """Replace the line about the download."""

    def clear_progress(self) -> None:
        """Remove that line."""

    def show(self, text: str) -> None:
        """Add a line about what is fetched."""

    def tell(self, text: str) -> None:
        """Add a minor line."""

    def warn(self, text: str) -> None:
        """Add a note that matters."""


class FetchStopped(Exception):
    """The user stops a download; what has come stays."""


class FetchProgress:
    """The progress of one file's download."""

    def __init__(self, output: Output, name: str, total: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the file's name and its bytes."""
        self._output = output
        self._name = plain(name)
        self._total = total
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(self, here: int) -> None:
        """Show the number of bytes received so far."""
        now = self._clock()
        if self._seen and now - self._seen[-1][0] < _PAUSE and here < self._total:
            return
        if self._seen and here < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, here))
        while now - self._seen[0][0] > _WINDOW and len(self._seen) > 2:
            self._seen.popleft()
        self._output.progress(self.text())

    def text(self) -> str:
        """Return the line."""
        here = self._seen[-1][1]
        if here >= self._total:
            return f"checking {size(self._total)}  {self._name}"
        amount = f"{100 * here // self._total:>3} %  {size(here)} of {size(self._total)}"
        return f"{amount}{self._speed()}  {self._name}"

    def _speed(self) -> str:
        (then, before), (now, here) = self._seen[0], self._seen[-1]
        if now <= then or here <= before:
            return ""
        rate = (here - before) / (now - then)
        return f"  {rate / 2**20:.1f} MiB/s  {duration((self._total - here) / rate)} left"


def duration(seconds: float) -> str:
    """Return seconds as clock time, such as "1:05"."""
    whole = round(seconds)
    if whole >= _HOUR:
        return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02}:{whole % _MINUTE:02}"
    return f"{whole // _MINUTE}:{whole % _MINUTE:02}"
