"""Keeps the terminal for the screen alone: what a C library writes there would tear it, so it goes to the log."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from app.paths import log_file

_SIGNALS = {"SIGTERM": 143, "SIGHUP": 129}
"""Those that end a screen in order, and the exit codes that tell of them."""


def leave_at_signals(leave: Callable[[int], object]) -> None:
    """Have the running loop call `leave` with an exit code where a signal asks for the end."""
    loop = asyncio.get_running_loop()
    for name, code in _SIGNALS.items():
        # Windows lacks one of them, and its loop listens to none.
        with suppress(AttributeError, NotImplementedError):
            loop.add_signal_handler(getattr(signal, name), partial(leave, code))


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
    sink = _sink()
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)
    try:
        yield
    finally:
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
