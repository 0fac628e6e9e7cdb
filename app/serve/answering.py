"""Answers for one HTTP request: whole, or as a stream that begins in time; both end when the client disconnects."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from app.serve.replies.errors import Refused
from app.serve.replies.stream import WAITING, EventStream, error_event
from app.serve.requests.engine_request import EngineRequest, Outcome, Piece
from app.serve.service import Service
from app.serve.web.disconnect import unless_gone

T = TypeVar("T")
Speech = AsyncGenerator[Piece | Outcome]
"""An answer as `Service.speak` yields it."""
_ANSWERING = b": answering\n\n"


class Answering:
    """Runs requests of the engine for HTTP requests."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def all(self, requests: Sequence[EngineRequest]) -> list[Outcome]:
        """Return the answers to several requests, one after the other. Raises Refused."""
        return [await self._service.whole(one, further=place > 0) for place, one in enumerate(requests)]

    async def attend(self, request: Request, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work for a request; raises Gone, Refused as `unless_gone` does."""
        return await unless_gone(work, request.receive, self._service.stop)

    async def stream(
        self,
        request: Request,
        engine_request: EngineRequest,
        events: Callable[[Speech], AsyncGenerator[bytes]],
        failure: Callable[[Refused], bytes] = error_event,
    ) -> Response:
        """Return a stream of events, which begins before the engine does if that takes more than a moment.

        An error within that moment is still reported by the HTTP status, a later one by the event of `failure`.
        """
        speech, limits = self._service.speak(engine_request), self._service.settings.limits
        progress = _Progress()
        first = asyncio.ensure_future(anext(speech))
        try:
            await self.attend(request, _until_done(first, limits.moment))
            if first.done():
                first.result()
        except BaseException:
            await _given_up(first, speech)
            raise
        return EventStream(
            events(progress.watched(_with_first(first, speech))),
            self._service.stop,
            self._service.metrics.refused,
            (limits.beat if first.done() else 0, limits.beat),
            BackgroundTask(_given_up, first, speech),
            failure,
            progress.comment,
        )


class _Progress:
    """Progress of an answer, for the comments that fill silences of its stream."""

    def __init__(self) -> None:
        self._comment = WAITING

    def comment(self) -> bytes:
        """Return the comment for a silence that ends now."""
        return self._comment

    async def watched(self, speech: Speech) -> Speech:
        """Yield an answer unchanged, and note how far it is."""
        async with aclosing(speech):
            async for piece in speech:
                if isinstance(piece, Piece) and (reading := piece.reading) is not None:
                    self._comment = f": reading {reading.done} of {reading.total} tokens\n\n".encode()
                else:
                    self._comment = _ANSWERING
                yield piece


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
