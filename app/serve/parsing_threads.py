"""Threads for parsing what a client sent: on the event loop this would block every client, on the engine every answer.

Forms (grammars, schemas) have threads of their own, so that costly forms delay no tokenizing. Large bodies have one
thread: parsing JSON holds Python's lock, and several threads at once would hold it for most of the time.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_THREADS = 4


class ParsingThreads:
    """Pools of threads beside the event loop: for bodies, for forms, and for texts."""

    def __init__(self) -> None:
        self._bodies = ThreadPoolExecutor(1, thread_name_prefix="body")
        self._forms = ThreadPoolExecutor(_THREADS, thread_name_prefix="form")
        self._texts = ThreadPoolExecutor(_THREADS, thread_name_prefix="text")

    async def body(self, work: Callable[[], T]) -> T:
        """Run `work` on the thread of large bodies; return its result, or raise its error."""
        return await asyncio.get_running_loop().run_in_executor(self._bodies, work)

    async def form(self, work: Callable[[], T]) -> T:
        """Run `work` on the form threads; return its result, or raise its error."""
        return await asyncio.get_running_loop().run_in_executor(self._forms, work)

    async def text(self, work: Callable[[], T]) -> T:
        """Run `work` on the text threads; return its result, or raise its error."""
        return await asyncio.get_running_loop().run_in_executor(self._texts, work)

    def close(self) -> None:
        """Wait for running work and drop queued work: the vocabulary that the work uses must outlive it."""
        for pool in (self._bodies, self._forms, self._texts):
            pool.shutdown(cancel_futures=True)
