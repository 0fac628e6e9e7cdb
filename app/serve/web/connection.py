"""One HTTP connection, with shorter timeouts than uvicorn's for silent clients and endless senders."""

import asyncio
import json
import socket

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.serve.replies.errors import Refused
from app.serve.web.open_files import most_connections

SILENCE = 15.0
"""Maximum seconds without a complete request."""
MOST = 256
"""Maximum open connections; above it, the oldest idle one is closed for a new one."""
_AHEAD = 1 << 16
"""Maximum bytes read behind an unanswered request, which keeps a disconnect noticeable."""


class Connection(H11Protocol):
    """A connection that closes itself without a request, and reports invalid HTTP as a JSON error."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a request."""
        self._opened = self.loop.time()
        # asyncio sets TCP_NODELAY only for sockets with a protocol number, which create_server's lack. Without it the
        # body of an answer waits 40 ms for the client's acknowledgement of the headers.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        self._watch()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_watch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._read_on()
        self._watch()

    def on_response_complete(self) -> None:
        """Start to wait for the next request."""
        super().on_response_complete()
        self._watch()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Report invalid HTTP; in the middle of an answer, close without a report."""
        body = json.dumps(Refused(400, "This is not valid HTTP.").body).encode()
        length = (b"content-length", str(len(body)).encode())
        headers = [(b"content-type", b"application/json"), length, (b"connection", b"close")]
        events = (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage())
        try:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass
        self.transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being read or answered."""
        return self.cycle is None or self.cycle.response_complete

    def _read_on(self) -> None:
        """Continue reading behind a request: a paused connection hides that the client disconnects."""
        if not self.is_idle and not self.cycle.more_body and len(self.conn.trailing_data[0]) <= _AHEAD:
            self.flow.resume_reading()

    def _watch(self) -> None:
        if not self.is_idle:
            self._stop_watch()
        elif self._patience is None and not self.transport.is_closing():
            self._patience = self.loop.call_later(SILENCE, self.transport.close)

    def _stop_watch(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _make_room(self) -> None:
        """Close the oldest idle connection; this one if there is none."""
        open_ones = [one for one in self.connections if isinstance(one, Connection) and not one.transport.is_closing()]
        if len(open_ones) > most_connections(MOST):
            idle = (one for one in open_ones if one.is_idle and one is not self)
            min(idle, key=lambda one: one._opened, default=self).transport.close()
