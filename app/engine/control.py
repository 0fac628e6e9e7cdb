"""Who decides how long to draft: before the drafter speaks, and once more when its draft is on the table."""

from typing import TYPE_CHECKING, Protocol

from drafters.base import Draft

if TYPE_CHECKING:
    from app.engine.speculate import Round


class Controller(Protocol):
    """Chooses the draft length of each round from what earlier rounds showed."""

    def begin(self) -> None:
        """Start an answer."""

    def limit(self) -> int:
        """Return the most tokens to draft now; 0 is plain decoding."""

    def trim(self, draft: Draft) -> Draft:
        """Return the first tokens of a draft, those that are worth checking.

        Only right for drafts without `probs`: of a draft that was drawn at random nothing may be left out because of
        what was drawn, or the rule that accepts it is biased.
        """

    def observe(self, round_: "Round") -> None:
        """Learn from a round that has ended."""


class FixedLength:
    """Always the same draft length, and every draft whole."""

    def __init__(self, draft_length: int) -> None:
        self._draft_length = draft_length

    def begin(self) -> None:
        """Do nothing."""

    def limit(self) -> int:
        """Return the fixed length."""
        return self._draft_length

    def trim(self, draft: Draft) -> Draft:
        """Return the whole draft."""
        return draft

    def observe(self, round_: "Round") -> None:
        """Learn nothing."""
