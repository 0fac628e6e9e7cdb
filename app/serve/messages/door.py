"""Handlers of `/v1/messages` and `/v1/messages/count_tokens`."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.serve.answering import Answering
from app.serve.messages.reply import MessageWriter
from app.serve.messages.request import MessagesRequest, read_messages, refuse_streams
from app.serve.replies.errors import Refused
from app.serve.replies.stream import event, named_events, run_through
from app.serve.requests.body import read_fields
from app.serve.requests.fields import Fields
from app.serve.requests.known_fields import Route
from app.serve.service import Service


class MessagesDoor:
    """The paths of Anthropic's protocol."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._answering = Answering(service)

    async def create(self, request: Request) -> Response:
        """Answer a conversation."""
        service, wanted = self._service, await self._read(request)
        await service.prepare(wanted.chat.engine_request.question.grammar)
        writer, asked = MessageWriter(wanted), wanted.chat.engine_request
        if wanted.chat.stream:
            return await self._answering.stream(
                request, asked, lambda speech: named_events(writer.events(speech)), _failure
            )
        await self._answering.attend(request, run_through(writer.events(service.speak(asked))))
        return JSONResponse(writer.message)

    async def count(self, request: Request) -> Response:
        """Return the number of tokens of a conversation's prompt."""
        wanted = await self._read(request, refuse_streams)
        return JSONResponse({"input_tokens": await self._service.count(wanted.chat.engine_request)})

    async def _read(self, request: Request, check: Callable[[Fields], None] = lambda _: None) -> MessagesRequest:
        fields, service = await read_fields(request, Route.MESSAGES, self._service), self._service
        check(fields)
        # Checking many tools or a schema takes a tenth of a second, which would stall every other answer.
        is_long = any(fields.has(name) for name in ("tools", "output_config", "output_format"))
        return await (service.parsing.form if is_long else service.parsing.text)(lambda: read_messages(fields, service))


def _failure(refused: Refused) -> bytes:
    return event(refused.messages_body, "error")
