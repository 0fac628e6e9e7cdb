"""The connection to one editor, from the first byte to the end of the process."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

import psutil
from pygls.io_ import run_async

from app.engine.runtime.load import LoadPlan
from app.lsp.loaded import Models
from app.lsp.server import Server
from app.lsp.settings import Settings
from app.lsp.wire import Wire

_LOOK_SECONDS = 5.0
"""Seconds between checks whether the editor's process still runs."""


def converse(plan: LoadPlan, settings: Settings, draft_length: int | None, client: int | None) -> int:
    """Serve the editor on standard input and output; return the exit code that the protocol requires.

    It is 0 only after `shutdown`, then `exit`.
    """
    return asyncio.run(_converse(plan, settings, draft_length, client))


async def _converse(plan: LoadPlan, settings: Settings, draft_length: int | None, client: int | None) -> int:
    wire, stop = Wire(), threading.Event()
    server = Server(lambda editor: Models(editor, plan, draft_length), settings)

    def leave() -> None:
        stop.set()
        wire.hang_up()

    server.protocol.on_exit = leave
    server.protocol.set_writer(wire)
    watch = asyncio.ensure_future(_watch(server, client, leave))
    try:
        # A truncated message, or a header without an end: the peer no longer speaks the protocol.
        with suppress(asyncio.IncompleteReadError, ValueError):
            await run_async(stop, wire, server.protocol, error_handler=server.report_server_error)
    finally:
        watch.cancel()
        await server.models.close()
    return 0 if server.protocol.received_shutdown else 1


async def _watch(server: Server, client: int | None, leave: Callable[[], None]) -> None:
    """End the connection after the editor's process has ended: other processes may hold the streams open."""
    seen = False
    while True:
        process = server.process_id or client
        there = process is not None and psutil.pid_exists(process)
        if seen and not there:
            leave()
        # A process that never existed here belongs to another machine or container: its id means nothing.
        seen = seen or there
        await asyncio.sleep(_LOOK_SECONDS)
