"""One thing at a time, and the newest wins."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Latest:
    """Runs what it is given; what runs already is called off first, so that nothing ever waits in a line."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return what the work gives; None if something newer, or `call_off`, came in between.

        Cancelling the caller cancels the work, and is raised.
        """
        self.call_off()
        task = asyncio.ensure_future(work)
        self._task = task
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                raise
            return None

    def call_off(self) -> None:
        """Cancel what runs, if anything does."""
        if self._task is not None:
            self._task.cancel()
