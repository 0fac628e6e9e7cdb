"""Handlers of the paths that run the model: chats, completions, infill."""

from collections.abc import Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.serve.answering import Answering
from app.serve.requests.answer_form import has_form, parse_form
from app.serve.requests.body import read_fields
from app.serve.requests.chat import read_chat
from app.serve.requests.completions import read_completions
from app.serve.requests.known_fields import Route
from app.serve.requests.native import NativeRequest, events_of, read_completion, read_infill
from app.serve.requests.prompts import read_prefixes, read_prompts
from app.serve.service import Service


class Asking:
    """The paths that run the model."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._answering = Answering(service)

    async def chat(self, request: Request) -> Response:
        """Answer a conversation."""
        fields, service = await read_fields(request, Route.CHAT, self._service), self._service
        # Checking many tools takes a tenth of a second, which would stall every other answer.
        parse = service.parsing.form if has_form(fields) or fields.has("tools") else service.parsing.text
        chat = await parse(lambda: read_chat(fields, service))
        await service.prepare(chat.engine_request.question.grammar)
        if chat.stream:
            events = partial(chat.events, service=service)
            return await self._answering.stream(request, chat.engine_request, events)
        return JSONResponse(chat.reply(await self._answering.attend(request, self._answering.all(chat.requests))))

    async def completions(self, request: Request) -> Response:
        """Continue texts, or fill gaps in them, as OpenAI's servers do."""
        fields = await read_fields(request, Route.COMPLETIONS, self._service)
        read = read_prefixes if fields.text("suffix") else read_prompts
        prompts, form = await read(fields, self._service), await parse_form(fields, self._service)
        wanted = read_completions(fields, self._service, prompts, form)
        if wanted.stream:
            return await self._answering.stream(
                request, wanted.requests[0], lambda speech: wanted.events(speech, self._service)
            )
        return JSONResponse(wanted.reply(await self._answering.attend(request, self._answering.all(wanted.requests))))

    async def infill(self, request: Request) -> Response:
        """Fill a gap in a text, as llama.cpp's server does."""
        fields = await read_fields(request, Route.INFILL, self._service)
        form = await parse_form(fields, self._service)
        return await self._native(request, [read_infill(fields, self._service, _client(request), form)])

    async def completion(self, request: Request) -> Response:
        """Continue texts, as llama.cpp's server does."""
        fields = await read_fields(request, Route.COMPLETION, self._service)
        prompts = await read_prompts(fields, self._service)
        form = await parse_form(fields, self._service)
        return await self._native(request, read_completion(fields, self._service, prompts, form))

    async def _native(self, request: Request, wanted: Sequence[NativeRequest]) -> Response:
        service, requests = self._service, [one.request for one in wanted]
        if wanted[0].stream:
            return await self._answering.stream(request, requests[0], lambda speech: events_of(wanted, speech, service))
        outcomes = await self._answering.attend(request, self._answering.all(requests))
        replies = [one.reply(outcome, service.loaded) for one, outcome in zip(wanted, outcomes, strict=True)]
        # A request with one prompt gets one object, not a list.
        return JSONResponse(replies if len(replies) > 1 else replies[0])


def _client(request: Request) -> tuple[str, str]:
    """Return host and user agent of a client: an editor may open a connection for each request."""
    return request.client.host if request.client else "", request.headers.get("user-agent", "")
