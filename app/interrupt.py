"""A long measurement beside the main thread, so that Ctrl-C is heard while the other one is inside llama.cpp."""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

from models.abort import AbortFlag


def run_interruptible(work: Callable[[], None], abort: AbortFlag) -> None:
    """Run `work` on a thread of its own to its end, and raise what it raised.

    The first Ctrl-C raises the abort flag, at which a decode stops within milliseconds; a second one ends the program.
    """

    def on_interrupt(_: int, __: FrameType | None) -> None:
        abort.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        with ThreadPoolExecutor(1, "measuring") as thread:
            thread.submit(work).result()
    finally:
        signal.signal(signal.SIGINT, before)
