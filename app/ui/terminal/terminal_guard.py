"""Guard of the terminal during a screen: output of C libraries goes to the log, and ending signals close the screen."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

from app.shell.killed_screen import forget_screen, note_screen
from app.shell.paths import log_file

_TURN = 0.5
"""Seconds in which a loop has heard of all signals that came while it stood still."""
meant_for_others: set[int] = set()
"""Signals that came while another program had the terminal, and were its own; the loop hears of them afterwards."""
_came_before: list[int] = []
"""Signals that came before the loop listened to them."""
_ENDING = (
    "SIGTERM SIGHUP SIGQUIT SIGINT SIGABRT SIGUSR1 SIGUSR2 SIGALRM SIGVTALRM SIGPROF SIGXCPU SIGIO SIGPWR SIGSTKFLT"
)
"""Signals that end a program which does not ask for them, but for those of a fault in it, and SIGKILL."""


def leave_at_signals(leave: Callable[[int], object]) -> None:
    """Call `leave` on the running loop with an exit code at each ending signal."""
    loop = asyncio.get_running_loop()
    for number in ending_signals():
        # Windows has few of them, and its loop listens to none.
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, partial(_leave, leave, number))
    # The exception of an earlier one is lost where Python ignores exceptions, as in a finalizer.
    for number in _came_before:
        loop.call_soon(_leave, leave, number)


def _leave(leave: Callable[[int], object], number: int) -> None:
    if number in meant_for_others:
        # Each key pressed there has its own turn here.
        asyncio.get_running_loop().call_later(_TURN, meant_for_others.discard, number)
    else:
        leave(128 + number)


def ending_signals() -> list[int]:
    """Return the numbers of the signals that end a screen in order; exit codes are 128 more."""
    return [getattr(signal, name) for name in _ENDING.split() if hasattr(signal, name)]


@contextmanager
def _signals_leave() -> Iterator[None]:
    """Leave by an exception at a signal that comes before the loop listens to it, or when it no longer does."""

    def leave(number: int, _: FrameType | None) -> None:
        _came_before.append(number)
        raise SystemExit(128 + number)

    before = {}
    _came_before.clear()
    for number in ending_signals():
        # Only the main thread may ask for signals, and some systems keep a few to themselves.
        with suppress(OSError, ValueError):
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def terminal_to_itself() -> Iterator[None]:
    """Send descriptors 1 and 2 to the log file; Textual goes on writing to the terminal, on a descriptor of its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    before = sys.__stdout__, sys.__stderr__
    # Textual's driver asks the first of these for the size of the terminal, and writes to the second.
    sys.__stdout__ = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")  # type: ignore[misc]
    sys.__stderr__ = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")  # type: ignore[misc]
    sink, record = _sink(), note_screen(1)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)
    try:
        with _signals_leave():
            yield
    finally:
        forget_screen(record)
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, copy in enumerate(kept, start=1):
            os.dup2(copy, descriptor)
            os.close(copy)
        for screen in (sys.__stdout__, sys.__stderr__):
            # A terminal that is gone takes nothing more.
            with suppress(OSError):
                screen.close()
        sys.__stdout__, sys.__stderr__ = before  # type: ignore[misc]


def _sink() -> int:
    try:
        return os.open(log_file(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        # No place to write the log is no reason to tear the screen.
        return os.open(os.devnull, os.O_WRONLY)
