"""How often guesses come true: learnt online, by who guessed, how sure it was, and how deep in the draft.

Two views of the same observations. `chance` speaks of a guess that is on the table, and starts from the drafter's own
confidence; `at` speaks of a place before anybody has guessed, and starts hopeful: a source that is never tried can't
show what it is worth.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from drafters.base import Draft
from drafters.draft_model import Hindsight
from models.base import common_prefix
from models.remembered import Json

_PRIOR = 4.0
"""Observations that a drafter's own word, or hope, counts for."""
_MEMORY = 0.97
"""Weight of the past in a cell, an observation: a text changes from prose to code and back within tens of tokens."""
_BETWEEN_ANSWERS = 0.5
"""Weight of the past when a new answer begins."""
_LASTING = 0.995
"""Weight of the past, an observation, in what no answer ends: how good a source is that has shown little lately."""
_UNUSED = 0.98
"""Weight of the past in a cell that a draft of its source did not reach: what was bad once is looked at again."""
_UNSEEN = 0.8
_SURENESS = (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.88, 0.94, 0.975, 0.99)
"""Borders between cells: finer near 1, where long drafts are decided."""
_PLACES = (1, 2, 4, 8)
"""First places, after place 0, of the groups that share a cell."""
_HINT = 12.0
"""Observations that another text than the target's own counts for."""
_FOLLOWED = 12
"""Guesses of an unchecked draft that are followed: some of each group, in not too many rounds."""
_NO_OPINION = 0.5
_SECOND_GUESS = 0.4
"""Chance of a second guess where the first was wrong, before any was seen."""


@dataclass(slots=True, eq=False)
class _Cell:
    """A running share that forgets."""

    hits: float = 0.0
    weight: float = 0.0
    memory: float = _MEMORY

    def observe(self, hit: bool) -> None:
        self.hits = self.memory * self.hits + hit
        self.weight = self.memory * self.weight + 1

    def share(self, prior: float) -> float:
        return (self.hits + _PRIOR * prior) / (self.weight + _PRIOR)

    def fade(self, kept: float) -> None:
        self.hits *= kept
        self.weight *= kept

    def recall(self, hits: float, weight: float) -> None:
        # A comparison with what is no number is false.
        if 0 <= hits <= weight <= 1 / (1 - self.memory) + 1:
            self.hits, self.weight = hits, weight


@dataclass(slots=True)
class SourceCount:
    """What a source was seen to do since the models were loaded: whole numbers, for screens."""

    guessed_at: list[int] = field(default_factory=list)
    """Guesses at each place whose predecessors all came true: index 0 is a draft's first token."""
    right_at: list[int] = field(default_factory=list)

    def observe(self, place: int, right: bool) -> None:
        """Count a guess."""
        if place == len(self.guessed_at):
            self.guessed_at.append(0)
            self.right_at.append(0)
        self.guessed_at[place] += 1
        self.right_at[place] += right


class Acceptance:
    """Chances that a guessed token is accepted, given that all before it in the draft were."""

    def __init__(self) -> None:
        self.counts: defaultdict[str, SourceCount] = defaultdict(SourceCount)
        """By source; guesses that were not sent to the target count too, as far as the text decided them."""
        self._by_evidence: defaultdict[tuple[str, int, int], _Cell] = defaultdict(_Cell)
        self._by_place: defaultdict[tuple[str, int], _Cell] = defaultdict(_Cell)
        self._lasting: defaultdict[tuple[str, int], _Cell] = defaultdict(partial(_Cell, memory=_LASTING))
        self._second: defaultdict[str, _Cell] = defaultdict(_Cell)
        self.in_part = ""
        """Beginning of the sources that have not read all of their text; "": none.

        What they guess now is worse, and says nothing of the long run.
        """
        self._followed: Draft | None = None
        self._since: list[int] = []

    def begin(self) -> None:
        """Start an answer: what earlier ones taught counts half."""
        self._followed = None
        for cell in (*self._by_evidence.values(), *self._by_place.values()):
            cell.fade(_BETWEEN_ANSWERS)

    def chances(self, draft: Draft) -> list[float]:
        """Return the chance of each token of a draft."""
        return [
            self._by_evidence[draft.source, bisect_right(_SURENESS, sure), _group(place)].share(sure)
            for place, sure in enumerate(confidence_of(draft))
        ]

    def floors(self, draft: Draft) -> list[float]:
        """Return the same chances as far as they are proved: what nobody has seen come true has none."""
        proved = self.proved(draft.source, len(draft.tokens))
        return [
            self._by_evidence[draft.source, bisect_right(_SURENESS, sure), _group(place)].share(min(sure, floor))
            for place, (sure, floor) in enumerate(zip(confidence_of(draft), proved, strict=True))
        ]

    def proved(self, source: str, length: int) -> list[float]:
        """Return the chances of a source's guesses, at the first places of a draft, as far as they are proved.

        Where it has shown little lately, what it showed in the long run counts.
        """
        return _spread([self._proved(source, group) for group in _groups(length)], length)

    def _proved(self, source: str, group: int) -> float:
        return self._by_place[source, group].share(self._lasting[source, group].share(0.0))

    def hoped(self, source: str, length: int, like: str = "") -> list[float]:
        """Return the chances of a source's guesses, at the first places of a draft, before they are made.

        A source that has shown little yet is taken to be like the one named.
        """
        return _spread([self._hoped(source, group, like) for group in _groups(length)], length)

    def at(self, source: str, place: int, like: str = "") -> float:
        """Return the chance of a source's guess at `place` (0: the first) before it is made; see `hoped`."""
        return self._hoped(source, _group(place), like)

    def _hoped(self, source: str, group: int, like: str) -> float:
        prior = self._hoped(like, group, "") if like else _UNSEEN
        return self._by_place[source, group].share(max(prior, self._lasting[source, group].share(0.0)))

    def knows(self, source: str) -> bool:
        """Tell whether a source has shown more than its prior is worth."""
        return self._by_place[source, 0].weight > _PRIOR

    def second(self, source: str) -> float:
        """Return the chance that a source's second guess for a place is right where its first is wrong."""
        return self._second[source].share(_SECOND_GUESS)

    def expect(self, source: str, agreed: float) -> None:
        """Take a source that has shown nothing yet to be right so often, in the long run, until it has shown more."""
        for group in range(len(_PLACES) + 1):
            self._lasting[source, group].recall(_HINT * agreed, _HINT)

    def shown(self, source: str) -> dict[str, Json]:
        """Return what a source has shown, lately and in the long run, as a table that `recall` takes."""
        evidence = {f"{group} {sure}": cell for (who, sure, group), cell in self._by_evidence.items() if who == source}
        places = {f"{group}": cell for (who, group), cell in self._by_place.items() if who == source}
        lasting = {f"{group} lasting": cell for (who, group), cell in self._lasting.items() if who == source}
        return {key: [cell.hits, cell.weight] for key, cell in (evidence | places | lasting).items()}

    def recall(self, source: str, told: Mapping[str, Json]) -> None:
        """Go on from what a source has shown in an earlier run; what can't be from there is left out."""
        for key, value in told.items():
            match self._cell_told(source, key), value:
                case _Cell() as cell, [int() | float() as hits, int() | float() as weight]:
                    cell.recall(hits, weight)

    def _cell_told(self, source: str, key: str) -> _Cell | None:
        match key.split():
            case [group] if group.isdecimal():
                return self._by_place[source, int(group)]
            case [group, "lasting"] if group.isdecimal():
                return self._lasting[source, int(group)]
            case [group, sure] if group.isdecimal() and sure.isdecimal():
                return self._by_evidence[source, int(sure), int(group)]
        return None

    def learn(self, source: str, hindsight: Hindsight) -> None:
        """Learn from guesses that were never part of a draft: they stand for every place in one."""
        for sure, right in hindsight:
            for group in range(len(_PLACES) + 1):
                for cell in self._cells(source, sure, group):
                    cell.observe(right)

    def follow(self, draft: Draft, emitted: Sequence[int]) -> None:
        """Learn from a draft that was not checked once the text has decided it; until then no other is looked at.

        A shared pass emits one token: of the later guesses it says nothing, and they would never be proved.
        """
        if self._followed is None and draft.tokens:
            self._followed, self._since = draft.shortened(_FOLLOWED), []
        if (followed := self._followed) is not None:
            self._since += emitted
            right = common_prefix(followed.tokens, self._since)
            if right < len(self._since) or right == len(followed.tokens):
                self.observe(followed, self._since)

    def observe(self, draft: Draft, emitted: Sequence[int]) -> None:
        """Learn about every guess that the emitted tokens decide, whether it was checked or not."""
        self._followed = None
        if not draft.tokens:
            return
        decided: set[_Cell] = set()
        for place, (guess, sure, token) in enumerate(zip(draft.tokens, confidence_of(draft), emitted, strict=False)):
            right = guess == token
            for cell in self._cells(draft.source, sure, _group(place)):
                cell.observe(right)
                decided.add(cell)
            self.counts[draft.source].observe(place, right)
            if not right:
                if draft.runners_up:
                    self._second[draft.source].observe(draft.runners_up[place] == token)
                break
        for (source, *_), cell in chain(self._by_evidence.items(), self._by_place.items()):
            if source == draft.source and cell not in decided:
                cell.fade(_UNUSED)

    def _cells(self, source: str, sure: float, group: int) -> tuple[_Cell, ...]:
        """Return all that learn from one guess."""
        lately = self._by_evidence[source, bisect_right(_SURENESS, sure), group], self._by_place[source, group]
        in_part = self.in_part and source.startswith(self.in_part)
        return lately if in_part else (*lately, self._lasting[source, group])


def confidence_of(draft: Draft) -> Sequence[float]:
    """Return a draft's confidence, or none either way for a drafter without opinion."""
    return draft.confidence or (_NO_OPINION,) * len(draft.tokens)


def _group(place: int) -> int:
    return bisect_right(_PLACES, place)


def _groups(length: int) -> range:
    """Return the groups of the first places of a draft."""
    return range(_group(length - 1) + 1) if length else range(0)


def _spread(shares: Sequence[float], length: int) -> list[float]:
    """Return the share of each place from that of its group."""
    return [shares[_group(place)] for place in range(length)]
