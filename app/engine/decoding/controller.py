"""Who decides how long to draft: before the drafter speaks, and once more when its draft is on the table."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from app.engine.passes import Bounds
from app.engine.round import Round
from drafters.base import Draft


class Controller(Protocol):
    """Chooses the draft length of each round from what earlier rounds showed."""

    def begin(self) -> None:
        """Start an answer."""

    def limit(self) -> int:
        """Return the most tokens to check now, siblings included; 0 is plain decoding."""

    def trim(self, draft: Draft, room: int) -> Draft:
        """Return what is worth checking of a draft, at most `room` tokens: its beginning, and siblings beside it.

        Of a draft with `probs` nothing may be left out because of what was drawn, or the rule that accepts it is
        biased.
        """

    @property
    def certain(self) -> int:
        """Return the most tokens to check of what can't be wrong, now that the draft was trimmed."""

    @property
    def bounds(self) -> Bounds | None:
        """Say with what the pass over the draft that was trimmed may be shared; None: with nothing."""

    def observe(self, round_: Round) -> None:
        """Learn from a round that has ended."""


class FixedLength:
    """Always the same draft length, and every draft whole."""

    bounds: Bounds | None = None

    def __init__(self, draft_length: int, siblings: int = 0) -> None:
        """Take the length of the chain, and beside how many of its first tokens the second guess is checked too."""
        self._draft_length = self.certain = draft_length
        self._siblings = siblings

    def begin(self) -> None:
        """Do nothing."""

    def limit(self) -> int:
        """Return the fixed length, with its siblings."""
        return self._draft_length + self._siblings

    def trim(self, draft: Draft, room: int) -> Draft:
        """Return the draft, with siblings as far as there is room."""
        if not self._siblings:
            return draft
        chain = draft.shortened(self._draft_length)
        return with_siblings(chain, range(min(self._siblings, room - len(chain.tokens))))

    def observe(self, round_: Round) -> None:
        """Learn nothing."""


def places_of(draft: Draft, most: int) -> list[int]:
    """Return those of the first `most` places at which a draft has second guesses, ascending."""
    return [place for place, token in enumerate(draft.runners_up[:most]) if token is not None]


def with_siblings(draft: Draft, places: Iterable[int]) -> Draft:
    """Return a draft with its second guesses at these places, ascending, where it has them."""
    known = [place for place in places if place < len(draft.runners_up)]
    chosen = ((place, token) for place in known if (token := draft.runners_up[place]) is not None)
    return replace(draft, siblings=tuple(chosen))
