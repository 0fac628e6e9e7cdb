"""One thing of a kind at a time, and the newest wins."""

import asyncio
from collections.abc import Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Latest:
    """Runs what it is given; what runs of its kind is called off first, so that nothing ever waits in a line."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, work: Coroutine[Any, Any, T], kind: Hashable) -> T | None:
        """Return what the work gives; None if something newer of its kind, or `call_off`, came in between.

        Cancelling the caller cancels the work, and is raised.
        """
        if (older := self._tasks.get(kind)) is not None:
            older.cancel()
        task = asyncio.ensure_future(work)
        self._tasks[kind] = task
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                raise
            return None

    def call_off(self) -> None:
        """Cancel what runs, if anything does."""
        for task in self._tasks.values():
            task.cancel()
