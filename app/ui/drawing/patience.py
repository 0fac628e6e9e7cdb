"""A time limit for library code, so that drawing never waits for it without end."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LOOK_SECONDS = 0.05
"""Time of this process between two looks at how long it has been."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block once this thread has used `seconds` of processor time in it.

    It also ends a regular expression that tries everything. Only the main thread can be interrupted, and not under
    Windows: elsewhere there is no bound.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    end, is_running = time.thread_time() + seconds, True

    def look(*_: object) -> None:
        if is_running and time.thread_time() > end:
            raise TimeoutError

    # The handler stays: a late signal would otherwise end the process.
    signal.signal(signal.SIGVTALRM, look)
    # A thread that reads weights meanwhile must not find its reading broken off.
    signal.siginterrupt(signal.SIGVTALRM, False)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LOOK_SECONDS, _LOOK_SECONDS)
    try:
        yield
    finally:
        is_running = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
