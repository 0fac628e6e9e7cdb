"""Text that Enter could not send, followed at once by the next line of a paste."""

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
        """Note that Enter sent nothing."""
        self._held_at = self._clock()

    def is_ended_by(self, event: Key) -> bool:
        """Return whether a key begins the next line of text that arrives line by line."""
        if self._held_at is None or event.key == "enter":
            return False
        soon, self._held_at = self._clock() - self._held_at < _SOON, None
        return soon and event.is_printable
