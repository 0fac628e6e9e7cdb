"""Interruptible work: it runs on a thread of its own, so that the main thread handles Ctrl-C during llama.cpp calls."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType

from models.abort import AbortFlag
from models.system.deep_stack import start_deep


def run_interruptible(work: Callable[[], None], abort: AbortFlag) -> None:
    """Run `work` on a thread of its own to its end, and raise what it raised.

    The first Ctrl-C raises the abort flag, at which a decode stops within milliseconds; a second one ends the program.
    Where it is ignored, as by what a script runs in the background, it stays so.
    """

    def on_interrupt(_: int, __: FrameType | None) -> None:
        abort.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    done: Future[None] = Future()
    # Tokenising a long user text may need as deep a stack as the engine's thread has.
    thread = threading.Thread(target=_run, args=(work, done), name="measuring")
    with interrupts_to(on_interrupt):
        start_deep(thread)
        try:
            done.result()
        finally:
            thread.join()


def _run(work: Callable[[], None], done: Future[None]) -> None:
    try:
        work()
    except BaseException as error:
        done.set_exception(error)
    else:
        done.set_result(None)


@contextmanager
def interrupts_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle Ctrl-C with `handler` during the block; if SIGINT is ignored, it stays ignored."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
