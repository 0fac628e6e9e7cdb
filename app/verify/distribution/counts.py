"""What was emitted at one place over many seeds, laid beside what should have been."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from app.bench.measuring.goodness_of_fit import Cells, distance, pooled
from app.engine.decoding.round import Round
from app.engine.decoding.rules import typical_threshold
from app.verify.distribution.places import Place
from app.verify.distribution.plain_law import Law, Path, Plain
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution

DEPTH = 3
"""Tokens that are looked at in each answer: many faults leave the first one alone."""
_MOST_COUPLED = 2000
"""Tokens beyond which the closed form of the coupled rule, quadratic in them, is not worth its time."""


class Branch(StrEnum):
    """How a token came to be emitted."""

    ACCEPTED = "accepted"
    REPLACEMENT = "replacement"
    BONUS = "bonus"
    SIBLING = "sibling"
    PLAIN = "plain"
    """Nobody guessed."""


Said = tuple[Path, tuple[Branch, ...]]
"""The first tokens of an answer, and how each came about."""


def branches(round_: Round) -> tuple[Branch, ...]:
    """Return how each token that a round emitted came about."""
    verdict = round_.verdict
    if not round_.draft.tokens:
        return (Branch.PLAIN,)
    beside = () if verdict.sibling is None else (Branch.SIBLING,)
    last = Branch.BONUS if verdict.is_bonus else Branch.REPLACEMENT
    return (*[Branch.ACCEPTED] * verdict.accepted, *beside, last)[: len(round_.emitted)]


@dataclass(frozen=True, slots=True)
class Split:
    """How likely each token is to be the first one, by how it comes about."""

    kept: dict[int, float]
    """Guessed, and kept."""
    left: dict[int, float]
    """Emitted in place of another guess, a sibling or not: what is missing to the law of an exact rule."""

    @property
    def share_kept(self) -> float:
        """Chance that the first guess is kept."""
        return sum(self.kept.values())


def split(accept: Accept, target: Distribution, draft: Distribution) -> Split | None:
    """Return how the first token comes about under a rule; None where that is too long to sum."""
    parts = kept_parts(accept, target, draft)
    if parts is None:
        return None
    left = np.maximum(target.probs - parts, 0)
    ids = target.ids.tolist()
    return Split(dict(zip(ids, parts.tolist(), strict=True)), dict(zip(ids, left.tolist(), strict=True)))


def kept_parts(accept: Accept, target: Distribution, draft: Distribution) -> NDArray[np.float64] | None:
    """Return, for each token of `target`, the chance that it is guessed and kept, whatever the length of the draft.

    Residual and block: the smaller of both probabilities (for block the sum over all that may be drafted after it).
    Coupled: a term of the closed form of arXiv 2408.07978. None where that is too long to sum.
    """
    probs: NDArray[np.float64] = target.probs.astype(np.float64)
    guessed: NDArray[np.float64] = draft.at(target.ids).astype(np.float64)
    if accept is Accept.TYPICAL:
        guessed[probs <= typical_threshold(target)] = 0
        return guessed
    if accept is not Accept.COUPLED:
        return np.minimum(probs, guessed)
    if max(len(target.ids), len(draft.ids)) > _MOST_COUPLED:
        return None
    ids = np.union1d(target.ids, draft.ids)
    p, q = target.at(ids).astype(np.float64), draft.at(ids).astype(np.float64)
    both = np.minimum(p, q) > 0
    parts = np.zeros(len(ids))
    parts[both] = [1 / np.maximum(p / p[place], q / q[place]).sum() for place in np.flatnonzero(both)]
    return parts[np.searchsorted(ids, target.ids)]


@dataclass(slots=True)
class Counts:
    """What was emitted at one place."""

    samples: int = 0
    said: Counter[Said] = field(default_factory=Counter)
    guessed: int = 0
    """Answers whose first token was guessed at."""
    differing: list[int] = field(default_factory=lambda: [0] * DEPTH)
    """Answers whose first token, first two, first three are not plain decoding's with the same seed."""

    def add(self, said: Said, plain: Path | None) -> None:
        """Count an answer; `plain` is what plain decoding says with its seed, where that is to be compared."""
        path, how = said
        self.samples += 1
        self.said[said] += 1
        self.guessed += how[0] is not Branch.PLAIN
        if plain is not None:
            for depth in range(DEPTH):
                self.differing[depth] += path[: depth + 1] != plain[: depth + 1]

    def paths(self, depth: int) -> Counter[Path]:
        """Return how often each beginning of so many tokens was said."""
        counts: Counter[Path] = Counter()
        for (path, _), count in self.said.items():
            counts[path[:depth]] += count
        return counts

    def first(self, *wanted: Branch) -> Counter[int]:
        """Return how often each first token came about in one of the ways wanted."""
        counts: Counter[int] = Counter()
        for (path, how), count in self.said.items():
            if how[0] in wanted:
                counts[path[0]] += count
        return counts

    def bonuses(self, *, after_sibling: bool) -> dict[Path, Counter[int]]:
        """Return, by what came before them, how often each token came as a bonus after a draft or after a sibling."""
        counts: dict[Path, Counter[int]] = {}
        for (path, how), count in self.said.items():
            for place, branch in enumerate(how):
                beside = place > 0 and how[place - 1] is Branch.SIBLING
                if branch is Branch.BONUS and beside == after_sibling:
                    counts.setdefault(path[:place], Counter())[path[place]] += count
        return counts


@dataclass(slots=True)
class Sampled:
    """A place, what the target says there, and what was emitted."""

    place: Place
    plain: Plain
    laws: tuple[Law, ...]
    """Of the first token, the first two, the first three."""
    split: Split | None
    """How the first token comes about; None where nobody guesses it, or it is not known."""
    counts: Counts = field(default_factory=Counts)

    def law_cells(self, depth: int) -> Cells | None:
        """Return the counts of the first so many tokens beside their law."""
        return pooled(self.counts.paths(depth), self.laws[depth - 1].probs)

    def kept_cells(self) -> Cells | None:
        """Return the first tokens that were guessed and kept, beside the chances that the rule gives them."""
        return self._branch_cells(self.split.kept, Branch.ACCEPTED) if self.split else None

    def replaced_cells(self) -> Cells | None:
        """Return the first tokens that came in place of a guess, siblings among them, beside what is left for them."""
        return self._branch_cells(self.split.left, Branch.REPLACEMENT, Branch.SIBLING) if self.split else None

    def _branch_cells(self, parts: dict[int, float], *wanted: Branch) -> Cells | None:
        counts, total = self.counts.first(*wanted), sum(parts.values())
        return pooled(counts, {token: part / total for token, part in parts.items()}) if counts and total > 0 else None

    def bonus_cells(self, *, after_sibling: bool) -> list[Cells | None]:
        """Return the bonus tokens after each path beside what the target says there; only where that is known."""
        found = []
        for path, counts in self.counts.bonuses(after_sibling=after_sibling).items():
            if (served := self.plain.known(path)) is not None:
                found.append(pooled(counts, dict(zip(served.ids.tolist(), served.probs.tolist(), strict=True))))
        return found

    def ruled_out(self) -> int:
        """Return how many answers have a token that the target can't say there, as far as is known."""
        return sum(count for path, count in self.counts.paths(DEPTH).items() if self._is_ruled_out(path))

    def _is_ruled_out(self, path: Path) -> bool:
        for place, token in enumerate(path):
            served = self.plain.known(path[:place])
            if served is not None and served.of(token) == 0:
                return True
        return False

    def distance(self, depth: int) -> float:
        """Return the distance of what was said from its law, as far as ways are told apart."""
        laws = enumerate(self.laws[:depth], start=1)
        # Of more tokens fewer ways are told apart, and yet they can't be nearer than the first of them are.
        return max(distance(self.counts.paths(tokens), law.probs, law.rest) for tokens, law in laws)


def weighted(samples: Sequence[Sampled], value: Callable[[Sampled], float]) -> float:
    """Return the average of a figure of each place, weighted by its samples."""
    total = sum(sampled.counts.samples for sampled in samples)
    return sum(value(sampled) * sampled.counts.samples for sampled in samples) / total
