"""The body of a request: limits of its size, time, parts and depth, and its JSON."""

import asyncio
import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from starlette.requests import Request

from app.serve.replies.errors import Refused
from app.serve.requests.fields import Fields
from app.serve.requests.known_fields import READ, Route
from app.serve.requests.other_engines import understood
from app.serve.service import Service
from models.text.json_parts import has_more_parts

_SECONDS = 30.0
"""Maximum seconds to send a body."""
_PLAIN = ("", "identity")
"""Content encodings that leave the body as it is."""
_LARGE = 1 << 16
"""Bytes above which parsing takes longer than starting a thread."""
_DEPTH = 128
"""Maximum depth of lists and objects: requests need a few, JSON schemas more."""
_PARTS = 1 << 18
"""Maximum commas, opening brackets and strings: a prompt of 131,072 token ids has half as many."""


async def read_fields(request: Request, route: Route, service: Service, *, leases: bool = True) -> Fields:
    """Read a JSON object, with every field under its name here; raises Refused, also while no model is loaded.

    Without `leases` the request needs no turn of the model that answers.
    """
    service.check()
    if request.headers.get("content-encoding", "").strip().lower() not in _PLAIN:
        raise Refused(
            415, "The body has a Content-Encoding, which this server does not support. Send the body uncompressed."
        )
    body = await _read(request, service.settings.limits.body)

    def read() -> Fields:
        return understood(Fields(_document(body)), route)

    fields = read() if len(body) < _LARGE else await service.parsing.body(read)
    name = fields.text("model")
    if leases:
        streams = "stream" in READ[route] and fields.raw("stream") is True
        await request.state.lease.take(request, name, streams=streams)
    return fields


async def _read(request: Request, limit: int) -> bytes:
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length[:20]) > limit:
        _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    _too_large(limit)
    except TimeoutError:
        raise Refused(408, f"The body did not arrive within {_SECONDS:g} seconds.") from None
    return bytes(body)


def _document(body: bytes) -> dict[str, object]:
    """Return the JSON object that a body is; raises Refused."""
    document = _parsed(body)
    if not isinstance(document, dict):
        raise Refused(400, "The body must be a JSON object.")
    if is_too_deep(document):
        raise Refused(400, f"The JSON is nested more than {_DEPTH} levels deep.")
    return document


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the garbage collector during parsing: it would traverse the new objects and hold Python's lock."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _parsed(body: bytes) -> object:
    try:
        # Files written by Windows tools begin with a byte order mark, and clients send them unchanged.
        text = body.decode("utf-8-sig")
        if has_more_parts(text, _PARTS):
            raise Refused(400, f"The JSON has more than {_PARTS:,} commas, opening brackets and strings.")
        with _without_collector():
            return parse(text)
    except UnicodeDecodeError:
        raise Refused(400, "The body is not valid UTF-8.") from None
    except RecursionError:
        raise Refused(400, f"The JSON is nested more than {_DEPTH} levels deep.") from None
    except ValueError:
        raise Refused(400, "The body is not valid JSON.") from None


def parse(text: str) -> object:
    """Parse JSON without constants of JavaScript's; other threads run between two numbers. Raises ValueError."""
    return json.loads(text, parse_int=_whole, parse_constant=_no_number)


def _whole(digits: str) -> int:
    # In place of `int` itself: 4,000 digits take a tenth of a millisecond, and only Python code lets other threads run.
    return int(digits)


def is_too_deep(document: object) -> bool:
    """Tell whether lists and objects are nested more deeply than a request allows."""
    depth, level = 0, [document]
    while level:
        depth += 1
        level = [inner for outer in level for inner in _within(outer) if isinstance(inner, dict | list)]
    return depth > _DEPTH


def _within(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _too_large(limit: int) -> NoReturn:
    raise Refused(413, f"The body is larger than {limit:,} bytes.", code="body_too_large")


def _no_number(_: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not JSON")
