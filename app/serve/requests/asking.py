"""Handlers of the paths that run the model: chats, completions, infill."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.serve.replies.stream import EventStream
from app.serve.requests.answer_form import has_form, parse_form
from app.serve.requests.body import read_fields
from app.serve.requests.chat import read_chat
from app.serve.requests.completions import read_completions
from app.serve.requests.engine_request import EngineRequest, Outcome, Piece
from app.serve.requests.known_fields import Route
from app.serve.requests.native import NativeRequest, events_of, read_completion, read_infill
from app.serve.requests.prompts import read_prefixes, read_prompts
from app.serve.service import Service
from app.serve.web.disconnect import unless_gone

T = TypeVar("T")
Speech = AsyncGenerator[Piece | Outcome]
"""An answer as `Service.speak` yields it."""


class Asking:
    """The paths that run the model."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def chat(self, request: Request) -> Response:
        """Answer a conversation."""
        fields, service = await read_fields(request, Route.CHAT, self._service), self._service
        # Checking many tools takes a tenth of a second, which would stall every other answer.
        parse = service.parsing.form if has_form(fields) or fields.has("tools") else service.parsing.text
        chat = await parse(lambda: read_chat(fields, service))
        await service.prepare(chat.engine_request.question.grammar)
        if chat.stream:
            return await self._stream(request, chat.engine_request, chat.events)
        return JSONResponse(chat.reply(await self._attend(request, self._service.whole(chat.engine_request))))

    async def completions(self, request: Request) -> Response:
        """Continue texts, or fill gaps in them, as OpenAI's servers do."""
        fields = await read_fields(request, Route.COMPLETIONS, self._service)
        read = read_prefixes if fields.text("suffix") else read_prompts
        prompts, form = await read(fields, self._service), await parse_form(fields, self._service)
        wanted = read_completions(fields, self._service, prompts, form)
        if wanted.stream:
            return await self._stream(request, wanted.requests[0], lambda speech: wanted.events(speech, self._service))
        return JSONResponse(wanted.reply(await self._attend(request, self._all(wanted.requests))))

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
            return await self._stream(request, requests[0], lambda speech: events_of(wanted, speech, service))
        outcomes = await self._attend(request, self._all(requests))
        replies = [one.reply(outcome, service.loaded) for one, outcome in zip(wanted, outcomes, strict=True)]
        # A request with one prompt gets one object, not a list.
        return JSONResponse(replies if len(replies) > 1 else replies[0])

    async def _all(self, requests: Sequence[EngineRequest]) -> list[Outcome]:
        return [await self._service.whole(one, further=place > 0) for place, one in enumerate(requests)]

    async def _attend(self, request: Request, work: Coroutine[Any, Any, T]) -> T:
        return await unless_gone(work, request.receive, self._service.stop)

    async def _stream(
        self, request: Request, engine_request: EngineRequest, events: Callable[[Speech], AsyncGenerator[bytes]]
    ) -> Response:
        """Return a stream of events, which begins before the engine does if that takes more than a moment.

        An error within that moment is still reported by the HTTP status.
        """
        speech, limits = self._service.speak(engine_request), self._service.settings.limits
        first = asyncio.ensure_future(anext(speech))
        try:
            await self._attend(request, _until_done(first, limits.moment))
            if first.done():
                first.result()
        except BaseException:
            await _given_up(first, speech)
            raise
        return EventStream(
            events(_with_first(first, speech)),
            self._service.stop,
            self._service.metrics.refused,
            (limits.beat if first.done() else 0, limits.beat),
            BackgroundTask(_given_up, first, speech),
        )


def _client(request: Request) -> tuple[str, str]:
    """Return host and user agent of a client: an editor may open a connection for each request."""
    return request.client.host if request.client else "", request.headers.get("user-agent", "")


async def _until_done(first: asyncio.Future[Piece | Outcome], seconds: float) -> None:
    """Wait for the first message of an answer, at most `seconds`; cancelling the wait does not cancel the answer."""
    await asyncio.wait([first], timeout=seconds)


async def _with_first(first: asyncio.Future[Piece | Outcome], rest: Speech) -> Speech:
    yield await first
    async for said in rest:
        yield said


async def _given_up(first: asyncio.Future[Piece | Outcome], rest: Speech) -> None:
    """Cancel an answer at any point; a generator can't be closed while its first value is awaited."""
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await rest.aclose()
