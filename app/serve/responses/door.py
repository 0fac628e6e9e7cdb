"""Handlers of `/v1/responses`."""

from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.serve.answering import Answering
from app.serve.replies.errors import Refused
from app.serve.replies.stream import event, named_events, run_through
from app.serve.requests.body import read_fields
from app.serve.requests.fields import Fields
from app.serve.requests.known_fields import Route
from app.serve.requests.openai_fields import refuse
from app.serve.responses.kept import Kept, KeptResponses
from app.serve.responses.reply import ResponseWriter
from app.serve.responses.request import ResponseRequest, read_response
from app.serve.service import Service


class ResponsesDoor:
    """The paths of OpenAI's newer protocol."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._answering = Answering(service)
        self._kept = KeptResponses()

    async def create(self, request: Request) -> Response:
        """Answer a conversation."""
        service, wanted = self._service, await self._read(request)
        asked = wanted.chat.engine_request
        await service.prepare(asked.question.grammar)
        writer = ResponseWriter(wanted, self._kept)
        if wanted.chat.stream:
            failure = partial(_failure, writer)
            return await self._answering.stream(
                request, asked, lambda speech: named_events(writer.events(speech)), failure
            )
        await self._answering.attend(request, run_through(writer.events(service.speak(asked))))
        return JSONResponse(writer.response)

    async def count(self, request: Request) -> Response:
        """Return the number of tokens of a request's prompt."""
        wanted = await self._read(request)
        if wanted.chat.stream:
            refuse("stream", "a count of tokens is one number")
        tokens = await self._service.count(wanted.chat.engine_request)
        return JSONResponse({"object": "response.input_tokens", "input_tokens": tokens})

    async def find(self, request: Request) -> Response:
        """Return a stored response."""
        return JSONResponse(self._found(request).response)

    async def drop(self, request: Request) -> Response:
        """Drop a stored response."""
        name = self._found(request).response["id"]
        self._kept.drop(name)
        return JSONResponse({"id": name, "object": "response", "deleted": True})

    def _found(self, request: Request) -> Kept:
        if (found := self._kept.find(request.path_params["name"])) is None:
            raise Refused(404, "There is no such response.", code="response_not_found")
        return found

    async def _read(self, request: Request) -> ResponseRequest:
        fields, service = await read_fields(request, Route.RESPONSES, self._service), self._service
        # Checking many tools or a schema takes a tenth of a second, which would stall every other answer.
        parse = service.parsing.form if _is_long(fields) else service.parsing.text
        return await parse(lambda: read_response(fields, service, self._kept))


def _is_long(fields: Fields) -> bool:
    return fields.has("tools") or fields.has("text")


def _failure(writer: ResponseWriter, refused: Refused) -> bytes:
    one = writer.failure(refused)
    return event(one, one["type"])
