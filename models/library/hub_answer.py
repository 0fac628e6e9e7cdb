"""Reading of the hub's whole answers, with bounds on length and time."""

import time
from collections.abc import Iterator
from typing import Any

from models.errors import LocalspecError

BEGINNING_SECONDS = 300.0
"""Seconds in all for the beginning of a file, of up to 32 MiB."""
_SECONDS = 60.0
"""Seconds in all for an answer about a repository."""
_LONGEST = 8 << 20
"""Bytes of such an answer; ten thousand files take a third of that."""
_OF_THE_WIRE = (b"content-encoding", b"content-length", b"transfer-encoding")
"""Headers that told of a body's encoding and length on its way."""
_HINT = "Check HF_ENDPOINT if it is set, or try again later."


def whole_answer(response: Any, address: str) -> Any:
    """Return a streamed answer with all of its body; raises LocalspecError for one that is too long or too slow."""
    pieces, size = [], 0
    for piece in pieces_within(response, _SECONDS, address):
        pieces.append(piece)
        size += len(piece)
        if size > _LONGEST:
            cause = f"It sends more than {_LONGEST:,} bytes about a repository."
            raise LocalspecError(f"{address} does not answer like the hub.", cause=cause, hint=_HINT)
    headers = [each for each in response.headers.raw if each[0].lower() not in _OF_THE_WIRE]
    whole = type(response)(response.status_code, headers=headers, content=b"".join(pieces), request=response.request)
    whole.history = response.history
    return whole


def pieces_within(response: Any, seconds: float, address: str) -> Iterator[bytes]:
    """Yield an answer's bytes; raises LocalspecError where they take longer in all."""
    end = time.monotonic() + seconds
    for piece in response.iter_bytes():
        if time.monotonic() > end:
            cause = f"A short answer took more than {seconds:.0f} s."
            raise LocalspecError(f"{address} answers too slowly.", cause=cause, hint=_HINT)
        yield piece
