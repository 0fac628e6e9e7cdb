"""Thread with a deep stack, for libraries that recurse into a user's input.

llama.cpp cuts text into words with C++'s own regular expressions, which recurse. They take 350 bytes of stack for each
character of a run of blanks, letters or signs, with the vocabularies of Mistral, gpt-oss, DeepSeek and others: on the
usual eight megabytes a run of thirty thousand, as in a padded log, is a crash. So are two thousand rules of a grammar
each of which leads to the next.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_BYTES = (1 << 30, 1 << 28)
"""The first is enough for a run of 2,500,000, more than a server takes at /tokenize; the other for 700,000, where
there is less memory than the first might take. Only what is used of it does.
"""


def start_deep(thread: threading.Thread) -> None:
    """Start a thread on a deep stack, or on the usual one where the system allows no other."""
    usual = threading.stack_size()
    try:
        if not any(_is_started(thread, size) for size in _BYTES):
            threading.stack_size(usual)
            thread.start()
    finally:
        threading.stack_size(usual)


def call_deep(function: Callable[[], T]) -> T:
    """Return what a function does, called on a deep stack, or raise what it raises."""
    done: list[T] = []
    failed: list[BaseException] = []

    def call() -> None:
        try:
            done.append(function())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=call)
    start_deep(thread)
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def _is_started(thread: threading.Thread, size: int) -> bool:
    try:
        threading.stack_size(size)
        thread.start()
    except (RuntimeError, ValueError):
        return False
    return True
