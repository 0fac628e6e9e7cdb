"""Tasks of which only the latest runs."""

import asyncio
from collections.abc import Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Latest:
    """Runs one task at a time: a new task cancels the previous one, so that none ever waits in a queue."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, work: Coroutine[Any, Any, T], kind: Hashable) -> T | None:
        """Return the result of a task; None if a newer task, or `call_off`, cancelled it.

        Cancelling the caller cancels the task, and is raised.
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
        """Cancel the running task, if any."""
        for task in self._tasks.values():
            task.cancel()
