"""A stream that begins while its request still waits for its model, and goes on with the handler's own events."""

import asyncio

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Send

from app.serve.replies.errors import MISTAKE, Gone, Refused, refusal
from app.serve.replies.stream import HEADERS, WAITING, EventStream, error_event, event, send_end, send_part
from app.serve.service import Service
from models.errors import LocalspecError

_MESSAGES, _RESPONSES = "/v1/messages", "/v1/responses"


class WaitingStream:
    """Sends comments until a handler has its response, then that; an error is the last event."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def send(self, handling: "asyncio.Future[Response]", request: Request, send: Send) -> None:
        """Send the whole stream; raises what the handler raises by mistake, after its event."""
        head = [(b"content-type", b"text/event-stream; charset=utf-8")]
        head += [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        try:
            response = await self._response(handling, send)
        except (Gone, ClientDisconnect, TimeoutError):
            return
        except Refused as refused:
            await self._fail(refused, request, send)
        except LocalspecError as error:
            await self._fail(refusal(error, 0), request, send)
        except Exception:
            await self._fail(Refused(500, MISTAKE), request, send)
            raise
        else:
            await response(request.scope, request.receive, _without_head(send))

    async def _response(self, handling: "asyncio.Future[Response]", send: Send) -> Response:
        await send_part(send, WAITING)
        while not (await asyncio.wait([handling], timeout=self._service.settings.limits.beat))[0]:
            await send_part(send, WAITING)
        response = handling.result()
        assert isinstance(response, EventStream), "a request for a stream gets one"
        return response

    async def _fail(self, refused: Refused, request: Request, send: Send) -> None:
        self._service.metrics.refused(refused.status)
        await send_end(send, _failure(refused, request.url.path))


def _failure(refused: Refused, path: str) -> bytes:
    """Return an error as the clients of a path read it in a stream."""
    if path.startswith(_MESSAGES):
        return event(refused.messages_body, "error")
    if path.startswith(_RESPONSES):
        members = {"code": refused.code or "server_error", "message": refused.message, "param": refused.param}
        return event({"type": "error", **members, "sequence_number": 0}, "error")
    return error_event(refused)


def _without_head(send: Send) -> Send:
    """Return a function that sends a response whose status was sent already."""

    async def rest(message: Message) -> None:
        if message["type"] != "http.response.start":
            await send(message)

    return rest
