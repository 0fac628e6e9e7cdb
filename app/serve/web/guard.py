"""Access control: host names of the server, origins of web pages, and the key."""

import hmac
import logging
import traceback

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.serve.replies.errors import Refused
from app.serve.replies.metrics import Metrics
from app.serve.settings import Door
from app.serve.web.hosts import LOOPBACK, is_address, is_everywhere, name_of

_OPEN = ("/health", "/v1/health")
"""Paths without a key: programs that wait for the server's start have none yet."""
_log = logging.getLogger("localspec.serve")


class Guard:
    """Refuses requests without access, and logs internal errors."""

    def __init__(self, app: ASGIApp, door: Door, metrics: Metrics) -> None:
        self._app = app
        self._door = door
        self._metrics = metrics
        host = door.host.strip("[]")
        # Ports are not compared: a host name allowed with a port is that host name.
        self._names = {name.lower() for name in (*LOOPBACK, host)} | {name_of(name) for name in door.hosts}
        self._is_everywhere = is_everywhere(host)
        self._key = door.key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check(Headers(scope=scope), scope["path"], scope["method"])
        except Refused as refused:
            self._metrics.refused(refused.status)
            challenge = _challenge(refused, Headers(scope=scope).get("origin"))
            await refused.response(challenge, scope["path"])(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            # The error was answered already. Only its place is logged: its message may quote the client's text.
            _log.error("%s at\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))

    def _check(self, headers: Headers, path: str, method: str) -> None:
        if not self._is_called(headers.get("host", "")):
            raise Refused(403, "This host name is not allowed. See --allow-host.", code="host_not_allowed")
        origin = headers.get("origin")
        if origin is not None and not {origin, "*"} & {*self._door.origins}:
            raise Refused(403, "This origin is not allowed. See --allow-origin.", code="origin_not_allowed")
        if self._key and path not in _OPEN and method != "OPTIONS" and not self._knows_key(headers):
            raise Refused(401, "The API key is missing or wrong.", code="invalid_api_key")

    def _is_called(self, host: str) -> bool:
        """Tell whether a Host header names this server; any page can point a name of its own at this machine."""
        name = name_of(host)
        return name in self._names or (self._is_everywhere and is_address(name))

    def _knows_key(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        # Headers are Latin-1; compare_digest takes constant time.
        return hmac.compare_digest(given.encode("latin-1", "replace"), self._key)


def _challenge(refused: Refused, origin: str | None) -> dict[str, str]:
    """Return the headers of a refusal for a missing key; a page with an allowed origin may read them."""
    if refused.status != 401:
        return {}
    page = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"} if origin else {}
    return {"WWW-Authenticate": "Bearer", **page}
