"""Acceptance probabilities: learnt during answers, by source of the draft, its confidence, and the place in the draft.

One set of observations, two views. `chances` is about a draft that was proposed, and starts from the drafter's own
confidence. `expected` and `at` are about a place before a draft is made, and start high: a source that never drafts
could not be measured. `lower_bounds` and `proven` start from 0.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from app.engine.constants import (
    BETWEEN_ANSWERS,
    CONFIDENCES,
    FOLLOWED,
    HINT,
    LASTING,
    MEMORY,
    NO_OPINION,
    PLACES,
    PRIOR,
    SECOND_CHOICE,
    UNSEEN,
    UNUSED,
)
from drafters.base import Draft, Hindsight
from drafters.branching import decided_offers
from models.base import common_prefix
from models.system.remembered import Json


@dataclass(slots=True, eq=False)
class _Cell:
    """Running share of hits with exponential forgetting."""

    hits: float = 0.0
    weight: float = 0.0
    memory: float = MEMORY

    def observe(self, hit: bool) -> None:
        self.hits = self.memory * self.hits + hit
        self.weight = self.memory * self.weight + 1

    def share(self, prior: float) -> float:
        return (self.hits + PRIOR * prior) / (self.weight + PRIOR)

    def fade(self, kept: float) -> None:
        self.hits *= kept
        self.weight *= kept

    def recall(self, hits: float, weight: float) -> None:
        # A comparison with what is no number is false.
        if 0 <= hits <= weight <= 1 / (1 - self.memory) + 1:
            self.hits, self.weight = hits, weight


_NO_EVIDENCE = _Cell()
"""Empty cell, returned where no observation has made one; never written to."""


@dataclass(slots=True)
class SourceCount:
    """Counts of a source's draft tokens since the models were loaded, for screens."""

    proposed_at: list[int] = field(default_factory=list)
    """Draft tokens by place, counted if all earlier ones matched the text; index 0 is a draft's first token."""
    right_at: list[int] = field(default_factory=list)

    def observe(self, place: int, right: bool) -> None:
        """Count a draft token."""
        if place == len(self.proposed_at):
            self.proposed_at.append(0)
            self.right_at.append(0)
        self.proposed_at[place] += 1
        self.right_at[place] += right


class Acceptance:
    """Probabilities that a draft token is accepted, given that all earlier tokens of the draft were.

    `part_reader`, where a method takes it, is the beginning of the sources that have read only part of their text, ""
    for none: what they draft now is worse, and says nothing of the long run.
    """

    def __init__(self) -> None:
        self.counts: defaultdict[str, SourceCount] = defaultdict(SourceCount)
        """Counts by source; unverified draft tokens count too, as far as the text decides them."""
        self._by_evidence: defaultdict[tuple[str, int, int], _Cell] = defaultdict(_Cell)
        self._by_place: defaultdict[tuple[str, int], _Cell] = defaultdict(_Cell)
        self._lasting: defaultdict[tuple[str, int], _Cell] = defaultdict(partial(_Cell, memory=LASTING))
        self._agreed: defaultdict[str, _Cell] = defaultdict(_Cell)
        self._second: defaultdict[str, _Cell] = defaultdict(_Cell)
        self._followed: Draft | None = None
        self._since: list[int] = []

    def begin(self) -> None:
        """Start an answer: observations of earlier answers count half."""
        self._followed = None
        for cell in (*self._by_evidence.values(), *self._by_place.values()):
            cell.fade(BETWEEN_ANSWERS)

    def chances(self, draft: Draft) -> list[float]:
        """Return the acceptance probability of each token of a draft."""
        cells, source, confidence = self._by_evidence.get, draft.source, confidence_of(draft)
        return [
            cells((source, bisect_right(CONFIDENCES, sure), group), _NO_EVIDENCE).share(sure)
            for sure, group in zip(confidence, _groups_of(len(confidence)), strict=True)
        ]

    def offered(self, draft: Draft) -> list[float]:
        """Return the acceptance probability of each token that a draft offers beside its chain."""
        cells, source, offers = self._by_evidence.get, _beside(draft.source), draft.offers
        return [
            cells((source, bisect_right(CONFIDENCES, offer.confidence), 0), _NO_EVIDENCE).share(offer.confidence)
            for offer in (offers.nodes if offers else ())
        ]

    def lower_bounds(self, draft: Draft) -> list[float]:
        """Return a lower bound of each probability that `chances` returns; 0 for a source without observations."""
        length = len(draft.tokens)
        cells, source, proven = self._by_evidence.get, draft.source, self.proven(draft.source, length)
        return [
            cells((source, bisect_right(CONFIDENCES, sure), group), _NO_EVIDENCE).share(min(sure, least))
            for sure, least, group in zip(confidence_of(draft), proven, _groups_of(length), strict=True)
        ]

    def proven(self, source: str, length: int) -> list[float]:
        """Return the lower bounds for the first `length` places of a source's next draft.

        For a source with few recent observations its long-run record counts.
        """
        return _spread([self._proven(source, group) for group in _groups(length)], length)

    def expected(self, source: str, length: int, like: str = "") -> list[float]:
        """Return the acceptance probabilities for the first `length` places of a source's next draft.

        A source with few observations is assumed to resemble the source `like`.
        """
        return _spread([self._expected(source, group, like) for group in _groups(length)], length)

    def usual(self, source: str, length: int) -> list[float]:
        """Return the acceptance probabilities of the first `length` places, for a comparison of draft models.

        What was observed lately counts first, then the long-run record, then the agreement with the target: a model
        that has not drafted for some answers is judged by its long run.
        """
        return _spread([self._usual(source, group) for group in _groups(length)], length)

    def at(self, source: str, place: int, like: str = "") -> float:
        """Return the acceptance probability at `place` (0: the first) before a draft is made; see `expected`."""
        return self._expected(source, _group(place), like)

    # A query reads its cell by `get`: a lookup of the default dict would add it.

    def _proven(self, source: str, group: int) -> float:
        key = (source, group)
        return self._by_place.get(key, _NO_EVIDENCE).share(self._lasting.get(key, _NO_EVIDENCE).share(0.0))

    def _expected(self, source: str, group: int, like: str) -> float:
        key, agreed = (source, group), self._agreed.get(source, _NO_EVIDENCE)
        prior = self._expected(like, group, "") if like else agreed.share(UNSEEN)
        lasting = self._lasting.get(key, _NO_EVIDENCE).share(0.0)
        return self._by_place.get(key, _NO_EVIDENCE).share(max(prior, lasting))

    def _usual(self, source: str, group: int) -> float:
        key, agreed = (source, group), self._agreed.get(source, _NO_EVIDENCE).share(UNSEEN)
        return self._by_place.get(key, _NO_EVIDENCE).share(self._lasting.get(key, _NO_EVIDENCE).share(agreed))

    def knows(self, source: str) -> bool:
        """Tell whether a source has more observations than its prior weighs."""
        return self._by_place.get((source, 0), _NO_EVIDENCE).weight > PRIOR

    def second(self, source: str) -> float:
        """Return the acceptance probability of a source's sibling where its first choice is rejected."""
        return self._second.get(source, _NO_EVIDENCE).share(SECOND_CHOICE)

    def expect(self, source: str, agreed: float) -> None:
        """Take a measured agreement, 0 to 1, as the prior of a source without observations."""
        self._agreed[source].recall(HINT * agreed, HINT)
        for group in range(len(PLACES) + 1):
            self._lasting[source, group].recall(HINT * agreed, HINT)

    def shown(self, source: str) -> dict[str, Json]:
        """Return the recent and long-run observations of a source, as a table for `recall`."""
        evidence = {
            f"{group} {sure}": cell for (name, sure, group), cell in self._by_evidence.items() if name == source
        }
        places = {f"{group}": cell for (name, group), cell in self._by_place.items() if name == source}
        lasting = {f"{group} lasting": cell for (name, group), cell in self._lasting.items() if name == source}
        agreed = {"agreed": self._agreed[source]} if source in self._agreed else {}
        return {key: [cell.hits, cell.weight] for key, cell in (evidence | places | lasting | agreed).items()}

    def recall(self, source: str, shown: Mapping[str, Json]) -> None:
        """Load a source's observations of an earlier run; malformed entries are skipped."""
        for key, value in shown.items():
            match self._cell_of(source, key), value:
                case _Cell() as cell, [int() | float() as hits, int() | float() as weight]:
                    cell.recall(hits, weight)

    def _cell_of(self, source: str, key: str) -> _Cell | None:
        match key.split():
            case ["agreed"]:
                return self._agreed[source]
            case [group] if group.isdecimal():
                return self._by_place[source, int(group)]
            case [group, "lasting"] if group.isdecimal():
                return self._lasting[source, int(group)]
            case [group, sure] if group.isdecimal() and sure.isdecimal():
                return self._by_evidence[source, int(sure), int(group)]
        return None

    def learn(self, source: str, hindsight: Hindsight, part_reader: str = "") -> None:
        """Learn from tokens that were never part of a draft: each counts for every place of a draft."""
        for sure, right in hindsight:
            for group in range(len(PLACES) + 1):
                for cell in self._cells(source, sure, group, part_reader):
                    cell.observe(right)

    def follow(self, draft: Draft, emitted: Sequence[int], part_reader: str = "") -> None:
        """Learn from an unverified draft once the text has decided it; until then other drafts are ignored.

        A shared pass emits one token, so it says nothing about later draft tokens, which would stay unproven.
        """
        if self._followed is None and draft.tokens:
            self._followed, self._since = draft.shortened(FOLLOWED), []
        if (followed := self._followed) is not None:
            self._since += emitted
            right = common_prefix(followed.tokens, self._since)
            if right < len(self._since) or right == len(followed.tokens):
                self.observe(followed, self._since, part_reader)

    def observe(self, draft: Draft, emitted: Sequence[int], part_reader: str = "") -> None:
        """Learn about every draft token that the emitted tokens decide, whether it was verified or not."""
        self._followed = None
        if not draft.tokens:
            return
        for offer, right in decided_offers(draft, emitted):
            self._by_evidence[_beside(draft.source), bisect_right(CONFIDENCES, offer.confidence), 0].observe(right)
        decided: set[_Cell] = set()
        for place, (proposed, sure, token) in enumerate(zip(draft.tokens, confidence_of(draft), emitted, strict=False)):
            right = proposed == token
            for cell in self._cells(draft.source, sure, _group(place), part_reader):
                cell.observe(right)
                decided.add(cell)
            self.counts[draft.source].observe(place, right)
            if not right:
                if draft.runners_up:
                    self._second[draft.source].observe(draft.runners_up[place] == token)
                break
        for (source, *_), cell in chain(self._by_evidence.items(), self._by_place.items()):
            if source == draft.source and cell not in decided:
                cell.fade(UNUSED)

    def _cells(self, source: str, sure: float, group: int, part_reader: str) -> tuple[_Cell, ...]:
        """Return all cells that one draft token updates."""
        lately = self._by_evidence[source, bisect_right(CONFIDENCES, sure), group], self._by_place[source, group]
        read_part = part_reader and source.startswith(part_reader)
        return lately if read_part else (*lately, self._lasting[source, group])


def _beside(source: str) -> str:
    """Return the name under which the offers of a source are counted."""
    return f"{source} beside"


def confidence_of(draft: Draft) -> Sequence[float]:
    """Return a draft's confidence, or a constant one for a drafter that states none."""
    return draft.confidence or (NO_OPINION,) * len(draft.tokens)


def _group(place: int) -> int:
    return bisect_right(PLACES, place)


def _groups(length: int) -> range:
    """Return the groups of the first places of a draft."""
    return range(_group(length - 1) + 1) if length else range(0)


def _spread(shares: Sequence[float], length: int) -> list[float]:
    """Return the share of each place, which is that of its group."""
    return [shares[group] for group in _groups_of(length)]


_NEAR_GROUPS = tuple(_group(place) for place in range(64))
"""Cache of the groups by length: looked up many times in a round."""


def _groups_of(length: int) -> Sequence[int]:
    """Return the group of each of the first places of a draft."""
    return _NEAR_GROUPS[:length] if length <= len(_NEAR_GROUPS) else [_group(place) for place in range(length)]
