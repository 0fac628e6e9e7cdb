"""A text that Enter could not send, and what is typed right behind it."""

from collections.abc import Callable

from textual.events import Key

_SOON = 0.5
"""Seconds after an Enter that sent nothing in which what comes is the next line of a text that comes line by line."""


class HeldLine:
    """Remembers that Enter left a text where it is, so that a line which comes at once is a line of its own."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Take a clock in seconds."""
        self._clock = clock
        self._held_at: float | None = None

    def hold(self) -> None:
        """Take note that Enter sent nothing."""
        self._held_at = self._clock()

    def is_ended_by(self, event: Key) -> bool:
        """Tell whether a key begins the next line of what comes line by line."""
        if self._held_at is None or event.key == "enter":
            return False
        soon, self._held_at = self._clock() - self._held_at < _SOON, None
        return soon and event.is_printable
