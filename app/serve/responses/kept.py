"""Responses that later requests may continue: in memory alone, and of limited size."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_MOST = 1024
_MOST_BYTES = 64 << 20
"""Maximum size of all kept conversations, as JSON."""
Message = dict[str, object]
"""A message of a chat, as a client of `/v1/chat/completions` sends it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A response, and the conversation that it belongs to."""

    messages: tuple[Message, ...]
    """The conversation up to the answer, that included, without instructions."""
    response: dict[str, Any]
    """The response as the client received it."""


class KeptResponses:
    """Responses by their ids; the longest unused ones are dropped first."""

    def __init__(self, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        """Take the maximum number of responses, and of bytes of their conversations."""
        self._most, self._most_bytes = most, most_bytes
        self._kept: OrderedDict[str, tuple[Kept, int]] = OrderedDict()
        self._bytes = 0

    def keep(self, messages: Sequence[Message], response: dict[str, Any]) -> None:
        """Keep a response, and drop old ones that are too many; one that is too large by itself is not kept."""
        size = len(json.dumps(messages)) + len(json.dumps(response))
        if size > self._most_bytes:
            return
        self.drop(response["id"])
        self._kept[response["id"]] = Kept(tuple(messages), response), size
        self._bytes += size
        while len(self._kept) > self._most or self._bytes > self._most_bytes:
            self.drop(next(iter(self._kept)))

    def find(self, name: str) -> Kept | None:
        """Return a response, which becomes the last used one; None: there is none."""
        if name not in self._kept:
            return None
        self._kept.move_to_end(name)
        return self._kept[name][0]

    def drop(self, name: str) -> bool:
        """Drop a response; tell whether there was one."""
        found = self._kept.pop(name, None)
        self._bytes -= found[1] if found else 0
        return found is not None
