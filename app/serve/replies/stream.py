"""Answers as server-sent events, for clients that may disconnect or read too slowly."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.serve.replies.errors import MISTAKE, Gone, Refused
from app.serve.web.disconnect import unless_gone

_SECONDS = 60.0
"""Seconds that a client may leave its receive window full."""
WAITING = b": waiting\n\n"
"""A comment, which clients of event streams ignore; it keeps an idle connection open."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Headers of an event stream, for programs between server and client."""
DONE = b"data: [DONE]\n\n"
"""The last event of a stream, as OpenAI's clients expect it."""


def event(content: dict[str, Any], name: str = "") -> bytes:
    """Return one event, in ASCII, with a name where the protocol has names.

    Clients that take its lines from a decoded text, as httpx does, would end them at a U+2028 or U+0085 in an answer.
    """
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


async def named_events(contents: AsyncGenerator[dict[str, Any]]) -> AsyncGenerator[bytes]:
    """Yield one event for each content, named by its type."""
    async with aclosing(contents):
        async for content in contents:
            yield event(content, content["type"])


async def run_through(contents: AsyncGenerator[dict[str, Any]]) -> None:
    """Read all contents, for a client that gets the whole answer at its end."""
    async with aclosing(contents):
        async for _ in contents:
            pass


def error_event(refused: Refused) -> bytes:
    """Return an error as OpenAI's clients of chats and completions read it."""
    return event(refused.body)


class EventStream(Response):
    """A response of events that ends in order when the server stops, and at once when the client disconnects.

    Comments fill each silence: while a request waits, while its prompt is read, and between two events.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes],
        stop: asyncio.Event,
        refused: Callable[[int], None],
        silences: tuple[float, float],
        over: BackgroundTask | None = None,
        failure: Callable[[Refused], bytes] = error_event,
        comment: Callable[[], bytes] = lambda: WAITING,
    ) -> None:
        """Take the events, the server's stop signal, a counter of refusals by status, and a task to run at the end.

        `silences` are maximum seconds without bytes: before the first event, and between events. `failure` makes the
        last event of a stream that fails, `comment` what is sent in a silence.
        """
        super().__init__(headers=HEADERS, background=over)
        del self.headers["content-length"]
        self._events = events
        self._stop = stop
        self._refused = refused
        self._silences = silences
        self._failure = failure
        self._comment = comment

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send all events."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            await unless_gone(self._send(send), receive, self._stop)
        except (Gone, TimeoutError):
            return
        except Refused as refused:
            await self._fail(send, refused)
        except Exception:
            await self._fail(send, Refused(500, MISTAKE))
            raise
        else:
            await send_end(send, b"")
        finally:
            if self.background is not None:
                await self.background()

    async def _send(self, send: Send) -> None:
        async with aclosing(self._events), aclosing(self._with_comments(*self._silences)) as parts:
            async for one in parts:
                await send_part(send, one)

    async def _with_comments(self, silence: float, further: float) -> AsyncGenerator[bytes]:
        """Yield events, and a comment after each silence; the first silence may have another length."""
        while True:
            upcoming = asyncio.ensure_future(anext(self._events, None))
            try:
                while not (await asyncio.wait([upcoming], timeout=silence))[0]:
                    silence = further
                    yield self._comment()
                one = upcoming.result()
            finally:
                if not upcoming.done():
                    # A generator can't be closed while its next value is awaited.
                    upcoming.cancel()
                    await asyncio.gather(upcoming, return_exceptions=True)
            if one is None:
                return
            silence = further
            yield one

    async def _fail(self, send: Send, refused: Refused) -> None:
        """End with an error event: the HTTP status was sent already."""
        self._refused(refused.status)
        await send_end(send, self._failure(refused))


async def send_end(send: Send, data: bytes) -> None:
    """Send the end; drop it for a client that does not read it in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS):
            await send({"type": "http.response.body", "body": data, "more_body": False})


async def send_part(send: Send, data: bytes) -> None:
    """Send a part; raises TimeoutError for a client that does not read it in time."""
    async with asyncio.timeout(_SECONDS):
        await send({"type": "http.response.body", "body": data, "more_body": True})
    # Buffered events never suspend: without a turn of the event loop a disconnected client goes unnoticed.
    await asyncio.sleep(0)
