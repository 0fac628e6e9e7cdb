"""How long to draft: decided here, before each round, and by nobody else."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from app.engine.speculate import Round


class Controller(Protocol):
    """Chooses the draft length of each round from what earlier rounds showed."""

    def limit(self) -> int:
        """Return the most tokens to draft now; 0 is plain decoding."""

    def observe(self, round_: "Round") -> None:
        """Learn from a round that has ended."""


class FixedLength:
    """Always the same draft length."""

    def __init__(self, draft_length: int) -> None:
        self._draft_length = draft_length

    def limit(self) -> int:
        """Return the fixed length."""
        return self._draft_length

    def observe(self, round_: "Round") -> None:
        """Learn nothing."""
