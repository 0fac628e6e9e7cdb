"""Warnings of a request: fields that were changed or ignored, listed in its reply and in the log."""

import logging
from collections.abc import Sequence
from typing import Any

_log = logging.getLogger("localspec.serve")
_MOST = 64
"""Maximum warnings in one reply; a request of 256 tools could cause thousands."""
_LONGEST = 400
"""Maximum characters of one warning."""


class Warnings:
    """Warnings of one request, each once, in order of appearance."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add(self, text: str) -> None:
        """Add a warning for the client's developer, and log it; it must not quote the prompt."""
        text = text[:_LONGEST]
        if text not in self._texts and len(self._texts) < _MOST:
            self._texts[text] = None
            _log.warning("%s", text)

    @property
    def texts(self) -> tuple[str, ...]:
        """All warnings."""
        return tuple(self._texts)


def with_warnings(reply: dict[str, Any], warnings: Sequence[str]) -> dict[str, Any]:
    """Return a reply, or the last chunk of a stream, with the member `warnings`; unchanged if there are none."""
    return {**reply, "warnings": [*warnings]} if warnings else reply
