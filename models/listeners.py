"""Listeners of a model's passes, which read hidden rows out of its context before the next pass overwrites them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class RowListener(Protocol):
    """Protocol of a listener: see `models.heads.head_model`."""

    def take(self, context: Any, start: int, place: int, count: int) -> None:
        """Read what llama.cpp's context has for `count` tokens from position `start`, at `place` of the last pass."""

    def skip(self, length: int) -> None:
        """Take note that the text has `length` tokens now, which came from a file and not from passes."""

    def leave_context(self) -> None:
        """Free what depends on the model's context, which is freed next."""

    def join_context(self) -> None:
        """Set up the model's new context, which is empty."""


class Listeners:
    """Listeners of one model; without any a pass costs nothing more."""

    def __init__(self) -> None:
        self._all: list[RowListener] = []

    def add(self, listener: RowListener) -> None:
        """Let a listener read from the next pass on."""
        self._all.append(listener)

    def remove(self, listener: RowListener) -> None:
        """Let it read no more."""
        self._all.remove(listener)

    def take(self, context: Any, start: int, place: int, count: int) -> None:
        """Let all of them read: see `RowListener.take`."""
        for listener in self._all:
            listener.take(context, start, place, count)

    def skip(self, length: int) -> None:
        """Let all of them know that the text did not grow by passes: see `RowListener.skip`."""
        for listener in self._all:
            listener.skip(length)

    @contextmanager
    def between_contexts(self) -> Iterator[None]:
        """Let all of them leave the context, and join the next one, which is opened inside."""
        for listener in self._all:
            listener.leave_context()
        yield
        for listener in self._all:
            listener.join_context()
