"""Suffix automaton that grows with the text, and gives the longest repeat of its end (Blumer et al. 1985).

SAM-Decoding (Hu et al. 2024) drafts from one. A state stands for strings that end at the same places, each a suffix of
the longest of them; its link leads to the longest suffix that ends at more places.

An added token costs amortised constant time. At a million tokens it takes 110 to 140 bytes a token, of program text as
of random ids, and 50 of one long period: flat arrays, and a dict only for states with many continuations.
"""

from array import array
from collections.abc import Iterable, Iterator

ROOT = 0
"""The state of the empty string; as the target of an edge: no such edge."""
BORDER = -1
"""Stands between texts among the tokens. No edge is made for it, so no match crosses it."""
_NARROW = 8
"""Edges of a state that are searched one by one; with more, they move to a dict."""
_WIDE = -1
"""Stands in for the first edge of a state whose edges are in a dict."""
_RECORDED = 32
"""States whose counts are updated for a token, at most: in a long period there are as many as tokens."""


class SuffixAutomaton:
    """Every stretch of every text added, with how often it was continued, and where last."""

    def __init__(self) -> None:
        self.tokens = array("i")
        """All texts, oldest first, with a BORDER after each but the last."""
        self.length = array("i", [0])
        """Tokens of the longest string of each state."""
        self.link = array("i", [ROOT])
        """State of the longest suffix that occurs in more places."""
        self.latest = array("i", [0])
        """Place in `tokens` of the token that followed the latest occurrence; 0 for none."""
        self.count = array("i", [0])
        """Occurrences that were followed by a token."""
        self._edge = array("i", [0])
        self._edge_token = array("i", [BORDER])
        self._edge_state = array("i", [ROOT])
        self._edge_next = array("i", [0])
        self._wide: dict[int, dict[int, int]] = {}
        self._last = ROOT

    def extend(self, tokens: Iterable[int]) -> None:
        """Add tokens to the end of the latest text; a BORDER among them ends it."""
        for token in tokens:
            if token == BORDER:
                self.end_text()
            else:
                self._append(token)

    def end_text(self) -> None:
        """Let what comes next be a text of its own."""
        if self.tokens and self.tokens[-1] != BORDER:
            self.tokens.append(BORDER)
            # No edge leads to this state: it is where the next text starts, as the root was for the first.
            self._last = self._new_state(len(self.tokens), ROOT)

    def longest_match(self) -> int:
        """Return the state of the longest end of the latest text that occurs earlier and goes on there, or ROOT."""
        return self.continued(self.link[self._last])

    def continued(self, state: int) -> int:
        """Return the state itself, or the longest suffix of it that was followed by a token somewhere, or ROOT."""
        while state and not self.count[state]:
            state = self.link[state]
        return state

    def step(self, state: int, token: int) -> int:
        """Return the state after one token more, or ROOT where that never followed."""
        edge = self._edge[state]
        if edge == _WIDE:
            return self._wide[state].get(token, ROOT)
        while edge and self._edge_token[edge] != token:
            edge = self._edge_next[edge]
        return self._edge_state[edge]

    def is_unanimous(self, state: int) -> bool:
        """Return whether one token followed every occurrence."""
        edge = self._edge[state]
        return edge > 0 and self._edge_next[edge] == 0

    def _append(self, token: int) -> None:
        self._record()
        self.tokens.append(token)
        new = self._new_state(len(self.tokens), ROOT)
        state, self._last = self._last, new
        while not (known := self.step(state, token)):
            self._connect(state, token, new)
            if state == ROOT:
                return
            state = self.link[state]
        if self.length[known] == self.length[state] + 1:
            self.link[new] = known
        else:
            self.link[new] = self._split(state, token, known)

    def _record(self) -> None:
        """Count the end of the text as an occurrence of all its suffixes, now that a token follows it."""
        state, end, latest, count, link = self._last, len(self.tokens), self.latest, self.count, self.link
        for _ in range(_RECORDED):
            if state == ROOT:
                break
            latest[state] = end
            count[state] += 1
            state = link[state]

    def _new_state(self, length: int, link: int) -> int:
        self.length.append(length)
        self.link.append(link)
        self.latest.append(0)
        self.count.append(0)
        self._edge.append(0)
        return len(self.length) - 1

    def _split(self, state: int, token: int, known: int) -> int:
        """Give the shorter strings of `known` a state of their own, for they now end at one place more."""
        clone = self._new_state(self.length[state] + 1, self.link[known])
        self.latest[clone], self.count[clone] = self.latest[known], self.count[known]
        self._copy_edges(known, clone)
        self.link[known] = clone
        while self.step(state, token) == known:
            self._redirect(state, token, clone)
            if state == ROOT:
                break
            state = self.link[state]
        return clone

    def _connect(self, state: int, token: int, target: int) -> None:
        edge = self._edge[state]
        if edge == _WIDE:
            self._wide[state][token] = target
            return
        self._edge_token.append(token)
        self._edge_state.append(target)
        self._edge_next.append(edge)
        self._edge[state] = len(self._edge_token) - 1
        if edge:
            self._widen(state)

    def _widen(self, state: int) -> None:
        """Move the edges of a state to a dict if there are many."""
        edge, after = self._edge[state], self._edge_next
        for _ in range(_NARROW):
            edge = after[edge]
            if not edge:
                return
        self._wide[state] = dict(self._edges(state))
        self._edge[state] = _WIDE

    def _redirect(self, state: int, token: int, target: int) -> None:
        edge = self._edge[state]
        if edge == _WIDE:
            self._wide[state][token] = target
            return
        while self._edge_token[edge] != token:
            edge = self._edge_next[edge]
        self._edge_state[edge] = target

    def _copy_edges(self, state: int, clone: int) -> None:
        if self._edge[state] == _WIDE:
            self._wide[clone] = self._wide[state].copy()
            self._edge[clone] = _WIDE
            return
        for token, target in self._edges(state):
            self._connect(clone, token, target)

    def _edges(self, state: int) -> Iterator[tuple[int, int]]:
        edge = self._edge[state]
        while edge:
            yield self._edge_token[edge], self._edge_state[edge]
            edge = self._edge_next[edge]
