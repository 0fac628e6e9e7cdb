"""A long measurement beside the main thread, so that Ctrl-C is heard while the other one is inside llama.cpp."""

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
    """Have Ctrl-C handled otherwise for a while; where it is ignored, it stays so."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
