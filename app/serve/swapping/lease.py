"""Lease of the model for one request: from the moment its body is read until its answer is sent."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.serve.replies.errors import Refused
from app.serve.service import Service
from app.serve.swapping.waiting_stream import WaitingStream
from app.serve.web.disconnect import unless_gone

_MOST_NAMES = 32
"""Maximum models that an error lists."""
Handler = Callable[[Request], Awaitable[Response]]


class Lease:
    """The use of a model by one request; `take` once, `end` in any case."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._is_taken = False
        self.streams = asyncio.Event()
        """Set when a request for a stream begins to wait for its model."""

    async def take(self, request: Request, model: object, *, streams: bool = False) -> None:
        """Wait for the model that a request names; raises Refused, Gone, LocalspecError."""
        service = self._service
        choices, gate = service.choices, service.gate
        named = isinstance(model, str) and model and choices.is_open
        wanted = choices.find(str(model)) if named else gate.current or gate.last
        if wanted is None:
            names = ", ".join(list(choices.names)[:_MOST_NAMES])
            raise Refused(404, f"There is no model of this name here. There are: {names}.", code="model_not_found")
        if streams:
            self.streams.set()
        await unless_gone(gate.enter(wanted), request.receive, service.stop)
        self._is_taken = True

    @property
    def is_waiting(self) -> bool:
        """Whether a request for a stream waits for its model."""
        return self.streams.is_set() and not self._is_taken

    def end(self) -> None:
        """Let other models be loaded."""
        if self._is_taken:
            self._is_taken = False
            self._service.gate.leave()


class Leased:
    """An endpoint whose handler may take a lease, which ends when its response is sent.

    A stream whose model is being loaded begins before the handler has answered: comments keep its client.
    """

    def __init__(self, handler: Handler, service: Service) -> None:
        self._handler = handler
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        request, lease = Request(scope, receive, send), Lease(self._service)
        request.state.lease = lease
        try:
            if not self._may_wait:
                response = await self._handler(request)
                await response(scope, receive, send)
                return
            await self._attended(request, lease, send)
        finally:
            lease.end()

    @property
    def _may_wait(self) -> bool:
        settings = self._service.settings
        return settings.choices.is_open or settings.idle is not None

    async def _attended(self, request: Request, lease: Lease, send: Send) -> None:
        """Handle a request that may have to wait for its model."""
        handling = asyncio.ensure_future(self._handler(request))
        try:
            if await self._is_late(handling, lease):
                await WaitingStream(self._service).send(handling, request, send)
            else:
                response = await handling
                await response(request.scope, request.receive, send)
        finally:
            handling.cancel()
            await asyncio.gather(handling, return_exceptions=True)

    async def _is_late(self, handling: "asyncio.Future[Response]", lease: Lease) -> bool:
        """Wait for the handler; tell whether it is a stream that has waited more than a moment for its model."""
        noticed = asyncio.ensure_future(lease.streams.wait())
        both: list[asyncio.Future[Any]] = [handling, noticed]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        noticed.cancel()
        if not handling.done():
            await asyncio.wait([handling], timeout=self._service.settings.limits.moment)
        return not handling.done() and lease.is_waiting
