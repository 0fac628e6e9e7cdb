"""When to ask what might come at the cursor: once typing pauses, one question at a time, the newest alone alive."""

import asyncio
from functools import partial
from typing import Protocol

from app.complete.completer import Completer, Completion
from app.complete.place import CursorPosition
from app.complete.settings import Limits

PAUSE = 0.2
"""Seconds without a key after which is asked."""
QUICK = Limits()
PATIENT = Limits(tokens=256, seconds=4.0)
"""How much is waited for when the person asked."""


class Listener(Protocol):
    """Who knows the cursor, and is told what comes of a question; `moment` is the one it was asked for."""

    def place(self) -> tuple[CursorPosition, int]:
        """Return where the cursor is, and the moment."""

    def heard(self, text: str, moment: int) -> None:
        """Take what was said so far."""

    def completed(self, completion: Completion, moment: int) -> None:
        """Take all that was said."""

    def failed(self, error: Exception) -> None:
        """Take what went wrong."""


class Asking:
    """Asks a completer, on one event loop."""

    def __init__(self, completer: Completer, listener: Listener, limits: Limits = QUICK, pause: float = PAUSE) -> None:
        """Take whom to ask, whom to tell, how much to ask for unasked, and how long to wait for another key."""
        self._completer = completer
        self._listener = listener
        self._limits = limits
        self._pause = pause
        self._task: asyncio.Task[None] | None = None

    @property
    def asks(self) -> bool:
        """Whether a question is, or is about to be, asked."""
        return self._task is not None and not self._task.done()

    def ask(self, *, at_once: bool = False, limits: Limits | None = None) -> None:
        """Ask what might come where the cursor is after a pause, or at once; calls off what was asked before."""
        self.call_off()
        self._task = asyncio.create_task(self._ask(0.0 if at_once else self._pause, limits or self._limits))

    def call_off(self) -> None:
        """Call off what was asked."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Call off everything, and wait until it is."""
        self.call_off()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await self._completer.close()

    async def _ask(self, pause: float, limits: Limits) -> None:
        await asyncio.sleep(pause)
        place, moment = self._listener.place()
        hear = partial(self._listener.heard, moment=moment)
        try:
            completion = await self._completer.complete(place, limits, hear)
        except Exception as error:  # told, and survived: the text on the screen is worth more than any of it
            self._listener.failed(error)
            return
        self._listener.completed(completion, moment)
        if completion.text:
            # While the person reads it, the machine has time for the next.
            self._completer.prefetch(completion)
