"""Turns of requests that name different models: one model is loaded at a time, and changed when no answer runs."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from app.serve.replies.errors import Refused

_NO_TURN = "The server answers with another model now, and this request waited too long for its own. Try again later."


class _Waiting:
    """A request that waits for its model."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class ModelGate:
    """Admits requests for the loaded model: call `enter` before a request is read, and `leave` when it is answered.

    Requests wait in order. A swap takes all waiting requests for its model along; those that come later wait behind
    those for other models, so that none waits for ever.
    """

    def __init__(self, swap: Callable[[str], Awaitable[None]], most: int, seconds: float) -> None:
        """Take what loads a model in place of another, and the most waiting requests and their most seconds.

        Waiting for a load that has begun has no limit.
        """
        self.current: str | None = None
        """Id of the loaded model; None: none is loaded."""
        self.last = ""
        """Id of the model that was loaded last."""
        self.used = time.monotonic()
        """Time of the last use, in seconds of the monotonic clock."""
        self._swap = swap
        self._most, self._seconds = most, seconds
        self._users = 0
        self._waiting: list[_Waiting] = []
        self._swapping: asyncio.Task[None] | None = None
        self._next = ""
        """Id of the model that is being loaded."""

    def opened(self, name: str) -> None:
        """Take the model that was loaded at the start."""
        self.current = self.last = name

    @property
    def is_idle(self) -> bool:
        """Whether no request runs or waits, and no model is being loaded."""
        return not (self._users or self._waiting or self._swapping)

    async def enter(self, name: str) -> None:
        """Wait until a model is loaded and the request's turn has come; raises Refused, and what the load raises."""
        if name == self.current and not self._waiting and self._swapping is None:
            self._users += 1
            return
        if len(self._waiting) >= self._most:
            raise Refused(503, "Too many requests are waiting. Try again later.", code="busy")
        waiting = _Waiting(name)
        self._waiting.append(waiting)
        self._advance()
        try:
            await self._turn(waiting)
        except BaseException:
            self._forget(waiting)
            raise

    def leave(self) -> None:
        """End a request that has entered."""
        self._users -= 1
        self.used = time.monotonic()
        self._advance()

    async def unload(self, free: Callable[[], Awaitable[None]]) -> None:
        """Free the model if no request needs it; requests that come meanwhile wait."""
        if self.current is None or not self.is_idle:
            return

        async def freeing() -> None:
            self.current = None
            await free()

        await self._start(freeing())

    async def _turn(self, waiting: _Waiting) -> None:
        end = time.monotonic() + self._seconds
        while not waiting.turn.done():
            left = None if self._next == waiting.name else end - time.monotonic()
            if left is not None and left <= 0:
                raise Refused(503, _NO_TURN, code="busy")
            # Woken from time to time: a load of its model may have begun, which it waits for to the end.
            await asyncio.wait([waiting.turn], timeout=None if left is None else min(left, 1.0))
        waiting.turn.result()

    def _forget(self, waiting: _Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        elif waiting.turn.done() and not waiting.turn.cancelled() and waiting.turn.exception() is None:
            # It was admitted and cancelled at once.
            self._users -= 1
        self._advance()

    def _advance(self) -> None:
        """Admit the first waiting requests, or begin the swap that the first one needs."""
        if self._swapping is not None or not self._waiting:
            return
        if self._waiting[0].name == self.current:
            while self._waiting and self._waiting[0].name == self.current:
                self._admit(self._waiting[0])
        elif self._users == 0:
            self._start(self._change(self._waiting[0].name))

    def _start(self, work: Awaitable[None]) -> "asyncio.Task[None]":
        async def run() -> None:
            try:
                await work
            finally:
                self._swapping, self._next = None, ""
                self._advance()

        self._swapping = asyncio.ensure_future(run())
        return self._swapping

    async def _change(self, name: str) -> None:
        self._next = name
        try:
            await self._swap(name)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # raised for each request that waits for this model
            for one in self._of(name):
                self._waiting.remove(one)
                one.turn.set_exception(error)
            return
        self.current = self.last = name
        self.used = time.monotonic()
        for one in self._of(name):
            self._admit(one)

    def _of(self, name: str) -> list[_Waiting]:
        return [one for one in self._waiting if one.name == name]

    def _admit(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        self._users += 1
        waiting.turn.set_result(None)
