"""Counts of emitted tokens at one place over many seeds, beside their expected probabilities."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from app.bench.measuring.goodness_of_fit import Cells, distance, pooled
from app.engine.decoding.round import Round
from app.engine.decoding.rules import typical_threshold
from app.verify.distribution.places import SamplingPlace
from app.verify.distribution.plain_law import Law, Path, Plain
from models.sampling.accept import Accept
from models.sampling.distribution import Distribution

DEPTH = 3
"""Tokens that are counted in each answer: many faults do not affect the first one."""
_MOST_COUPLED = 2000
"""Tokens beyond which the closed form of the coupled rule, quadratic in them, takes too long."""


class Branch(StrEnum):
    """Branch of the decoding loop that emitted a token."""

    ACCEPTED = "accepted"
    REPLACEMENT = "replacement"
    BONUS = "bonus"
    SIBLING = "sibling"
    PLAIN = "plain"
    """Token of a round without a draft."""


Said = tuple[Path, tuple[Branch, ...]]
"""First tokens of an answer, and the branch of each."""


def branches(round_: Round) -> tuple[Branch, ...]:
    """Return the branch of each token that a round emitted."""
    verdict = round_.verdict
    if not round_.draft.tokens:
        return (Branch.PLAIN,)
    beside = [Branch.SIBLING] * len(verdict.branch)
    last = Branch.BONUS if verdict.is_bonus else Branch.REPLACEMENT
    return (*[Branch.ACCEPTED] * verdict.accepted, *beside, last)[: len(round_.emitted)]


@dataclass(frozen=True, slots=True)
class Split:
    """Probability of each token as the first one, by branch."""

    kept: dict[int, float]
    """Proposed and accepted."""
    left: dict[int, float]
    """Emitted in place of a rejected draft token, as replacement or sibling: the rest of an exact rule's law."""

    @property
    def share_kept(self) -> float:
        """Probability that the first draft token is accepted."""
        return sum(self.kept.values())


def split(accept: Accept, target: Distribution, draft: Distribution) -> Split | None:
    """Return the probabilities of the first token by branch under a rule; None where the sum takes too long."""
    parts = kept_parts(accept, target, draft)
    if parts is None:
        return None
    left = np.maximum(target.probs - parts, 0)
    ids = target.ids.tolist()
    return Split(dict(zip(ids, parts.tolist(), strict=True)), dict(zip(ids, left.tolist(), strict=True)))


def kept_parts(accept: Accept, target: Distribution, draft: Distribution) -> NDArray[np.float64] | None:
    """Return, for each token of `target`, the probability that it is proposed and accepted, for any draft length.

    Residual and block: the smaller of both probabilities (for block the sum over all that may be drafted after it).
    Coupled: a term of the closed form of arXiv 2408.07978. None where the sum takes too long.
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
    """Counts of emitted tokens at one place."""

    samples: int = 0
    outcomes: Counter[Said] = field(default_factory=Counter)
    guessed: int = 0
    """Answers whose first token was drafted."""
    differing: list[int] = field(default_factory=lambda: [0] * DEPTH)
    """Answers whose first one, two, three tokens differ from plain decoding's with equal seed."""

    def add(self, outcome: Said, plain: Path | None) -> None:
        """Count an answer; `plain` is plain decoding's path with its seed, if both are compared."""
        path, how = outcome
        self.samples += 1
        self.outcomes[outcome] += 1
        self.guessed += how[0] is not Branch.PLAIN
        if plain is not None:
            for depth in range(DEPTH):
                self.differing[depth] += path[: depth + 1] != plain[: depth + 1]

    def paths(self, depth: int) -> Counter[Path]:
        """Return the count of each path of the first `depth` tokens."""
        counts: Counter[Path] = Counter()
        for (path, _), count in self.outcomes.items():
            counts[path[:depth]] += count
        return counts

    def first(self, *wanted: Branch) -> Counter[int]:
        """Return the count of each first token that came from one of the wanted branches."""
        counts: Counter[int] = Counter()
        for (path, how), count in self.outcomes.items():
            if how[0] in wanted:
                counts[path[0]] += count
        return counts

    def bonuses(self, *, after_sibling: bool) -> dict[Path, Counter[int]]:
        """Return, by the path before them, the counts of bonus tokens after a draft or after a sibling."""
        counts: dict[Path, Counter[int]] = {}
        for (path, how), count in self.outcomes.items():
            for place, branch in enumerate(how):
                beside = place > 0 and how[place - 1] is Branch.SIBLING
                if branch is Branch.BONUS and beside == after_sibling:
                    counts.setdefault(path[:place], Counter())[path[place]] += count
        return counts


@dataclass(slots=True)
class Sampled:
    """Place with the target's distributions and the counts of emitted tokens."""

    place: SamplingPlace
    plain: Plain
    laws: tuple[Law, ...]
    """Laws of the first one, two, three tokens."""
    split: Split | None
    """Probabilities of the first token by branch; None without a draft, or if unknown."""
    counts: Counts = field(default_factory=Counts)

    def law_cells(self, depth: int) -> Cells | None:
        """Return the counts of the first `depth` tokens beside their law."""
        return pooled(self.counts.paths(depth), self.laws[depth - 1].probs)

    def kept_cells(self) -> Cells | None:
        """Return the counts of accepted first tokens beside their probabilities under the rule."""
        return self._branch_cells(self.split.kept, Branch.ACCEPTED) if self.split else None

    def replaced_cells(self) -> Cells | None:
        """Return the counts of replacements and siblings as first tokens beside their probabilities."""
        return self._branch_cells(self.split.left, Branch.REPLACEMENT, Branch.SIBLING) if self.split else None

    def _branch_cells(self, parts: dict[int, float], *wanted: Branch) -> Cells | None:
        counts, total = self.counts.first(*wanted), sum(parts.values())
        return pooled(counts, {token: part / total for token, part in parts.items()}) if counts and total > 0 else None

    def bonus_cells(self, *, after_sibling: bool) -> list[Cells | None]:
        """Return the counts of bonus tokens after each path beside the target's distribution, where it is known."""
        found = []
        for path, counts in self.counts.bonuses(after_sibling=after_sibling).items():
            if (served := self.plain.known(path)) is not None:
                found.append(pooled(counts, dict(zip(served.ids.tolist(), served.probs.tolist(), strict=True))))
        return found

    def ruled_out(self) -> int:
        """Return the number of answers with a token that the target excludes, as far as known."""
        return sum(count for path, count in self.counts.paths(DEPTH).items() if self._is_ruled_out(path))

    def _is_ruled_out(self, path: Path) -> bool:
        for place, token in enumerate(path):
            served = self.plain.known(path[:place])
            if served is not None and served.of(token) == 0:
                return True
        return False

    def distance(self, depth: int) -> float:
        """Return the distance of the shares of paths from their law; rare paths count together."""
        laws = enumerate(self.laws[:depth], start=1)
        # Longer paths have more of them counted together, yet can't be nearer than their first tokens.
        return max(distance(self.counts.paths(tokens), law.probs, law.rest) for tokens, law in laws)


def weighted(samples: Sequence[Sampled], value: Callable[[Sampled], float]) -> float:
    """Return the average of a figure over the places, weighted by samples."""
    total = sum(sampled.counts.samples for sampled in samples)
    return sum(value(sampled) * sampled.counts.samples for sampled in samples) / total
