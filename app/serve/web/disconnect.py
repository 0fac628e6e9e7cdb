"""Work that is cancelled when its client disconnects or the server stops."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from app.serve.replies.errors import Gone, Refused

T = TypeVar("T")


async def unless_gone(work: Coroutine[Any, Any, T], receive: Receive, stop: asyncio.Event) -> T:
    """Return the result of `work`; raises Gone if the client disconnects first, Refused if the server stops first.

    The work is then cancelled, and has ended when this returns. The body of the request must have been read before.
    """
    working = asyncio.ensure_future(work)
    watching = [asyncio.ensure_future(_until_gone(receive)), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait([working, *watching], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Gone if watching[0].done() else Refused(503, "The server is stopping.", code="stopping")
    finally:
        for task in (working, *watching):
            task.cancel()
        await asyncio.gather(working, *watching, return_exceptions=True)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
