"""Threads for work on what a client sent: the event loop would hold up every client, the engine every answer.

Forms have threads of their own, so that many costly ones keep no text waiting.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_THREADS = 4


class Aside:
    """Runs work beside the event loop."""

    def __init__(self) -> None:
        self._forms = ThreadPoolExecutor(_THREADS, thread_name_prefix="form")
        self._texts = ThreadPoolExecutor(_THREADS, thread_name_prefix="text")

    async def form(self, work: Callable[[], T]) -> T:
        """Return what some work on a form gives, or raise what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._forms, work)

    async def text(self, work: Callable[[], T]) -> T:
        """Return what some work on a text gives, or raise what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._texts, work)

    def close(self) -> None:
        """Wait for what runs, and start nothing more: the vocabulary in use there must outlive it."""
        self._forms.shutdown(cancel_futures=True)
        self._texts.shutdown(cancel_futures=True)
