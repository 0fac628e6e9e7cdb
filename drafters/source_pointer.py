"""Pointer following: a copy that was changed in one place goes on right after it, before any repeat is long enough.

    source   def total ( items ) :   sum = 0
    answer   def total ( rows  ) :                   items was replaced: after `rows` the source is at `)` already
Speculative edits do this for whole files (Cursor 2024); Copy-as-Decode (2026) counts 74 to 98 % copied tokens in edits.
After a token that differs, each place where the source may be found again is a candidate, and each predicted token
after it is evidence. To stay at the same place, as after an insertion, came true 2 times in 100, so it waits for the
source's own token to come: then it is found in the window, as the token after a deletion is.
"""

from array import array
from dataclasses import dataclass

from drafters.automaton import BORDER

_COPYING = 6
"""Tokens that match in a row before a text counts as a copy of its source."""
_WINDOW = 16
"""Tokens of the source that are searched for the latest token, for it to go on after that."""
_PATIENCE = 12
"""Tokens after which a copy that was left is given up."""
_FOUND = 4
"""Least evidence, in tokens, at which a candidate is taken for the source."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A place where the source of a copy may go on."""

    place: int
    """Of the token that is expected next."""
    evidence: int
    """Tokens that came true since the copy was left; a replacement of just one token counts as one."""


class SourcePointer:
    """Tracker of a copy's place in its source, which searches for the place when the copy differs."""

    def __init__(self, tokens: "array[int]") -> None:
        """Take the tokens that are copied from, which only ever grow."""
        self._tokens = tokens
        self.forget()

    def forget(self) -> None:
        """Copy nothing."""
        self._source: int | None = None
        self._since = 0
        self._proposals: list[Resumption] = []

    def best(self) -> Resumption | None:
        """Return the place with the most evidence, if there is any; of equals, one where a token came true."""
        best = max(self._proposals, key=lambda proposal: proposal.evidence, default=None)
        return best if best is not None and best.evidence > 0 else None

    def follow(self, token: int, match_length: int, match_place: int) -> None:
        """Go on by one token, which the index holds already; the match is that of the text up to it."""
        if match_length >= _COPYING:
            self.forget()
            self._source = match_place
        elif self._source is not None:
            self._since += 1
            self._search(self._source, token)
            if self._since > _PATIENCE:
                self.forget()

    def _search(self, source: int, token: int) -> None:
        true = [Resumption(g.place + 1, g.evidence + 1) for g in self._proposals if self._at(g.place) == token]
        found = next((proposal for proposal in true if proposal.evidence >= _FOUND), None)
        if found:
            # If the copy differs again, it does so from here.
            self._source, self._since, self._proposals = found.place, 0, [found]
            return
        replaced = Resumption(source + self._since, int(self._since == 1))
        self._proposals = [*true, *self._after_next(token, source), replaced]

    def _after_next(self, token: int, source: int) -> list[Resumption]:
        """Return the place after the next such token in the source, if it comes soon."""
        for place in range(source, source + _WINDOW):
            if self._at(place) == token:
                return [Resumption(place + 1, 1)]
        return []

    def _at(self, place: int) -> int:
        """Return a token of the source; BORDER at the end of what was there before the latest token."""
        return self._tokens[place] if place < len(self._tokens) - 1 else BORDER
