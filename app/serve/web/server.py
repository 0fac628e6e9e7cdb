"""The running server: listens at once, loads in the background, and shuts down in order."""

import asyncio
import errno
import logging
import os
import signal
import socket
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

import uvicorn

from app.engine.runtime.async_engine import AsyncEngine
from app.serve.service import Service
from app.serve.settings import Door, ServePlan
from app.serve.web.connection import MOST, Connection
from app.serve.web.open_files import ask_for_files, most_connections
from app.serve.web.routes import make_app
from app.shell.exit_codes import INTERRUPTED
from app.shell.terminal import Terminal
from models.errors import LocalspecError, UsageError
from models.text.fim import no_fim
from models.text.thoughts import nearest_effort

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NOT_HERE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""Errors of an address that this machine lacks: "localhost" is often two addresses, one of them switched off."""
_HINTS = {
    errno.EADDRINUSE: "Another program uses this port. Choose another port with --port.",
    errno.EACCES: "Ports below 1024 usually need privileges. Choose another port with --port.",
}
_EVERYWHERE = (socket.AF_INET6, "::")
_KEEP_ALIVE = 10
_LOOK = 15.0
"""Seconds between two looks at how long the model was not used, at most."""
_LAST = 5
"""Seconds that answers get to end after the stop signal."""


async def serve(plan: ServePlan, terminal: Terminal) -> None:
    """Serve until a signal ends it; raises LocalspecError."""
    ask_for_files()
    listeners = listen(plan.door)
    async_engine = AsyncEngine(plan.plan)
    service = Service(plan, async_engine)
    server = _Server(service, plan.limits.grace)
    loading = asyncio.create_task(_load(service, terminal, listeners[0]))
    # A server without a model ends; the error is raised below.
    loading.add_done_callback(lambda task: server.leave() if task.cancelled() or task.exception() else None)
    try:
        await server.serve(sockets=listeners)
    finally:
        loading.cancel()
        await asyncio.wait([loading])
        await asyncio.to_thread(service.close)
        await asyncio.to_thread(async_engine.close)
    if not loading.cancelled():
        loading.result()


def listen(door: Door) -> list[socket.socket]:
    """Open a socket for each address of the host, all of one port; raises LocalspecError, UsageError for no host."""
    try:
        found = socket.getaddrinfo(door.host.strip("[]"), door.port, type=socket.SOCK_STREAM)
        return _opened(dict.fromkeys((family, str(address[0])) for family, *_, address in found), door.port)
    except OSError as error:
        raise LocalspecError(
            f"Port {door.port} of {door.host} can't be used.",
            cause=str(error.strerror),
            hint=_HINTS.get(error.errno or 0, "Check --host and --port."),
        ) from error
    except UnicodeError as error:
        # A name with an empty or overlong part is never looked up.
        raise UsageError(f"--host {door.host} is not a host name.", cause=str(error), hint="Check --host.") from error


def _opened(addresses: Collection[tuple[socket.AddressFamily, str]], port: int) -> list[socket.socket]:
    """Open a socket for each address that exists here; raises OSError, also if none exists."""
    listeners: list[socket.socket] = []
    # Dual stack, as systems default to: Python's sockets of "::" accept no IPv4.
    both = [*addresses] == [_EVERYWHERE] and socket.has_dualstack_ipv6()
    with ExitStack() as stack:
        for place, (family, address) in enumerate(addresses, 1):
            try:
                one = socket.create_server((address, port), family=family, dualstack_ipv6=both)
                listeners.append(stack.enter_context(one))
                port = listeners[0].getsockname()[1]
            except OSError as error:
                if error.errno not in _NOT_HERE or (place == len(addresses) and not listeners):
                    raise
        stack.pop_all()
    return listeners


async def _load(service: Service, terminal: Terminal, listener: socket.socket) -> None:
    ready = await service.load(terminal.loading)
    for note in (*ready.notes, *ready.chat_notes):
        terminal.warn(note)
    wanted = service.settings.chatting.effort
    if (effort := nearest_effort(wanted, ready.efforts)) is not wanted and ready.efforts:
        terminal.warn(f"{service.loaded.name} has no thinking effort '{wanted}'. Chats use '{effort}'.")
    if service.settings.for_editors and not service.loaded.fills:
        # Editor plug-ins hide failed requests: without this warning the missing completions have no visible reason.
        problem = no_fim(service.loaded.name)
        terminal.warn(f"{problem.title} {problem.hint}")
    idle = service.settings.idle
    url, name = _url(service.settings.door.host, listener), service.loaded.name
    terminal.tell(f"listening on {url}: {name}, drafter {ready.drafter}, Ctrl-C stops")
    if idle is not None:
        await _unload_when_idle(service, idle)


async def _unload_when_idle(service: Service, seconds: float) -> None:
    """Free the model whenever no request has used it for so long; ends with the server."""
    while True:
        await asyncio.sleep(min(_LOOK, seconds / 4))
        if service.gate.is_idle and time.monotonic() - service.gate.used >= seconds:
            await service.unload()


def _url(host: str, listener: socket.socket) -> str:
    host = host.strip("[]")
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def _log_to_file(name: str) -> None:
    """Send a library's log to localspec's log file; the terminal shows messages for the user."""
    logger = logging.getLogger(name)
    logger.handlers, logger.propagate = [*logging.getLogger("localspec").handlers], False
    logger.setLevel(logging.ERROR)


class _Server(uvicorn.Server):
    """A uvicorn server with localspec's signals, timeouts and log."""

    def __init__(self, service: Service, grace: float) -> None:
        for name in ("uvicorn", "asyncio"):
            _log_to_file(name)
        config = uvicorn.Config(
            make_app(service), http=Connection, ws="none", lifespan="off", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=int(grace) + _LAST, backlog=most_connections(MOST),
        )  # fmt: skip
        super().__init__(config)
        self._service = service
        self._grace = grace

    def leave(self) -> None:
        """Accept no more requests; end when the running ones have ended, at the latest after the grace period."""
        if not self.should_exit:
            self.should_exit = True
            asyncio.get_running_loop().call_later(self._grace, self._service.stop.set)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in order at the first signal, and at once at a second Ctrl-C."""
        loop = asyncio.get_running_loop()

        def on_signal(number: int, _: FrameType | None) -> None:
            if number == signal.SIGINT and self.should_exit:
                os._exit(INTERRUPTED)
            loop.call_soon_threadsafe(self.leave)

        before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
