"""Protocol of controllers, which choose draft lengths for the decoding loop; the controller of a fixed length."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from app.engine.decoding.round import Round
from app.engine.decoding.shared_pass import Bounds
from drafters.base import Draft
from drafters.branching import likeliest


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Plan of a round, from `plan()` to `observe()`; every change in between makes a new value."""

    limit: int = 0
    """Most tokens to verify, siblings included; 0: decode plainly."""
    proposed: Draft | None = None
    """Draft as passed to `select()`, before it was cut; None: no drafter was called."""
    caught_up: bool = False
    """Whether the draft model read its unread tokens in this round."""


class Controller(Protocol):
    """Controller of the draft length of each round, from observations of earlier rounds.

    Call order: `begin()` once an answer; then in each round `plan()`, `select()` if the plan's limit is above 0, and
    `observe()`. `certain` and `bounds` are read after `select()`. An answer can be stopped after any of these calls;
    the next one starts with `begin()`.
    """

    def begin(self) -> None:
        """Start an answer."""

    def plan(self) -> RoundPlan:
        """Plan a round: choose how many tokens may be drafted."""

    def select(self, draft: Draft, room: int) -> Draft:
        """Return the part of a draft that is worth verifying, at most `room` tokens: its beginning, with siblings.

        A draft with `probs` must not be cut because of the tokens drawn: that would bias the accept rule.
        """

    @property
    def certain(self) -> int:
        """Return the most tokens to verify where a grammar allows only one; called after `select()`."""

    @property
    def bounds(self) -> Bounds | None:
        """Return the limits for sharing the pass over the selected draft; None: it is not shared."""

    def observe(self, round_: Round) -> None:
        """Learn from a round that has ended; the plan ends with it."""


class FixedLength:
    """Controller with one draft length for every round, which selects every draft whole."""

    bounds: Bounds | None = None

    def __init__(self, draft_length: int, siblings: int = 0, branches: int = 0) -> None:
        """Take the length of the chain, and at how many of its first places a sibling is verified too.

        Of a drafter that drafts trees, `draft_length` tokens are verified, with at most so many `branches` beside the
        chain; 0: its chain alone.
        """
        self._draft_length = self.certain = draft_length
        self._siblings = siblings
        self._branches = branches
        self._pending = 1

    def begin(self) -> None:
        """Start an answer."""
        self._pending = 1

    def plan(self) -> RoundPlan:
        """Return the fixed length, with its siblings; with branches, less the accepted ones that are read again."""
        again = self._pending - 1 if self._branches else 0
        return RoundPlan(max(0, self._draft_length + self._siblings - again))

    def select(self, draft: Draft, room: int) -> Draft:
        """Return the draft, with siblings as far as there is room."""
        if draft.offers is not None and self._branches:
            return likeliest(draft, room, self._branches, draft.confidence)
        if not self._siblings:
            return draft
        chain = draft.shortened(self._draft_length)
        return with_siblings(chain, range(min(self._siblings, room - len(chain.tokens))))

    def observe(self, round_: Round) -> None:
        """Take note of what the next pass reads again."""
        self._pending = 1 + len(round_.verdict.branch)


def places_of(draft: Draft, most: int) -> list[int]:
    """Return the places, among the first `most`, for which a draft has a second choice, ascending."""
    return [place for place, token in enumerate(draft.runners_up[:most]) if token is not None]


def with_siblings(draft: Draft, places: Iterable[int]) -> Draft:
    """Return a draft with siblings: its second choices for these places, ascending, where it has them."""
    known = [place for place in places if place < len(draft.runners_up)]
    chosen = ((place, token) for place in known if (token := draft.runners_up[place]) is not None)
    return replace(draft, siblings=tuple(chosen))
