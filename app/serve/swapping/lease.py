"""Lease of the model for one request: from the moment its body is read until its answer is sent."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.serve.replies.errors import Refused
from app.serve.service import Service
from app.serve.web.disconnect import unless_gone

_MOST_NAMES = 32
"""Maximum models that an error lists."""
Handler = Callable[[Request], Awaitable[Response]]


class Lease:
    """The use of a model by one request; `take` once, `end` in any case."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._is_taken = False

    async def take(self, request: Request, model: object) -> None:
        """Wait for the model that a request names; raises Refused, Gone, LocalspecError."""
        service = self._service
        choices, gate = service.choices, service.gate
        named = isinstance(model, str) and model and choices.is_open
        wanted = choices.find(str(model)) if named else gate.current or gate.last
        if wanted is None:
            names = ", ".join(list(choices.names)[:_MOST_NAMES])
            raise Refused(404, f"There is no model of this name here. There are: {names}.", code="model_not_found")
        await unless_gone(gate.enter(wanted), request.receive, service.stop)
        self._is_taken = True

    def end(self) -> None:
        """Let other models be loaded."""
        if self._is_taken:
            self._is_taken = False
            self._service.gate.leave()


class Leased:
    """An endpoint whose handler may take a lease, which ends when its response is sent."""

    def __init__(self, handler: Handler, service: Service) -> None:
        self._handler = handler
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        request, lease = Request(scope, receive, send), Lease(self._service)
        request.state.lease = lease
        try:
            response = await self._handler(request)
            await response(scope, receive, send)
        finally:
            lease.end()
