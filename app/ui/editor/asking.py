"""Requests for completions: after a pause in typing, one at a time, each cancelling the one before."""

import asyncio
from functools import partial
from typing import Protocol

from app.complete.completer import Completer, Completion
from app.complete.place import CursorPosition
from app.complete.settings import Limits

PAUSE = 0.2
"""Seconds without a key before an automatic request."""
QUICK = Limits()
PATIENT = Limits(tokens=256, seconds=4.0)
"""Limits of a completion that the user requested."""


class Listener(Protocol):
    """The editor, as requests use it: it knows the cursor and takes results, each with the `moment` of its request."""

    def place(self) -> tuple[CursorPosition, int]:
        """Return the cursor's place and the current moment."""

    def receive(self, text: str, moment: int) -> None:
        """Take the completion's text so far."""

    def completed(self, completion: Completion, moment: int) -> None:
        """Take the whole completion."""

    def failed(self, error: Exception) -> None:
        """Take the error of a request."""


class Asking:
    """Requests completions on one event loop."""

    def __init__(self, completer: Completer, listener: Listener, limits: Limits = QUICK, pause: float = PAUSE) -> None:
        """Take the completer and the listener. `limits` bounds automatic requests; `pause` is in seconds."""
        self._completer = completer
        self._listener = listener
        self._limits = limits
        self._pause = pause
        self._task: asyncio.Task[None] | None = None

    @property
    def asks(self) -> bool:
        """Whether a request is waiting or running."""
        return self._task is not None and not self._task.done()

    def ask(self, *, at_once: bool = False, limits: Limits | None = None) -> None:
        """Request a completion at the cursor after the pause, or at once; the request before it is cancelled."""
        self.call_off()
        self._task = asyncio.create_task(self._ask(0.0 if at_once else self._pause, limits or self._limits))

    def call_off(self) -> None:
        """Cancel the request."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Cancel the request, wait for its end, and close the completer."""
        self.call_off()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await self._completer.close()

    async def _ask(self, pause: float, limits: Limits) -> None:
        await asyncio.sleep(pause)
        place, moment = self._listener.place()
        hear = partial(self._listener.receive, moment=moment)
        try:
            completion = await self._completer.complete(place, limits, hear)
        except Exception as error:  # the text on the screen must survive any failure
            self._listener.failed(error)
            return
        self._listener.completed(completion, moment)
        if completion.text:
            # While the person reads it, the machine has time for the next.
            self._completer.prefetch(completion)
