"""Findings of a distribution check: goodness of fit, suspicious values, bounds of the distance."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from app.bench.measuring.goodness_of_fit import (
    Cells,
    Goodness,
    binomial_p,
    chance_bound,
    chance_interval,
    distance_bound,
    goodness,
    holm,
)
from app.verify.distribution.counts import DEPTH, Branch, Sampled, Split, weighted
from app.verify.distribution.places import SamplingPlace
from models.sampling.accept import Accept

LEVEL = 0.0099
"""Probability that one range of seeds shows a suspicious value although nothing is wrong."""
ALL = "all"
"""Name of all places together."""
_TOKENS = ("first token", "first 2 tokens", "first 3 tokens")


@dataclass(frozen=True, slots=True)
class Fit:
    """Comparison of counts with their expected probabilities."""

    name: str
    place: str
    """Id of the place's prompt, or `ALL`."""
    goodness: Goodness


@dataclass(frozen=True, slots=True)
class KeptShare:
    """Acceptance of the first draft token at one place."""

    place: str
    guessed: int
    kept: int
    expected: float
    """Acceptance probability under the rule."""
    interval: tuple[float, float]
    """99 % interval of the acceptance probability."""
    p: float


@dataclass(frozen=True, slots=True)
class Bound:
    """Bound of the distance of drafted text from the target's own distribution, averaged over the places."""

    tokens: int
    """Number of first tokens that are compared as one path."""
    measured: float
    """By counts: distance of the shares, noise included. By seeds: share of answers that differ from plain decoding."""
    at_most: float
    """Upper bound of the total variation distance, with 99 % confidence."""
    by: str
    """ "counts"; or "seeds" for the coupled rule, whose text equals plain decoding's for each seed."""


@dataclass(frozen=True, slots=True)
class Found:
    """Findings of one range of seeds."""

    samples: int
    fits: tuple[Fit, ...]
    shares: tuple[KeptShare, ...]
    ruled_out: int
    """Answers with a token that the target excludes."""
    bounds: tuple[Bound, ...]
    """Bounds for the first one, two, three tokens."""
    branches: dict[str, int]
    """Counts of the compared tokens by branch."""

    def p_values(self) -> dict[str, float]:
        """Return every p-value by name; an excluded token has p-value 0."""
        values = {"tokens that the target rules out": 0.0 if self.ruled_out else 1.0}
        for fit in self.fits:
            where = "" if fit.place == ALL else f" at {fit.place}"
            values[f"{fit.name}{where}, chi-square"] = fit.goodness.chi_square_p
            values[f"{fit.name}{where}, G"] = fit.goodness.g_p
        for share in self.shares:
            values[f"acceptance rate of first draft tokens at {share.place}"] = share.p
        return values


@dataclass(frozen=True, slots=True)
class DistributionFindings:
    """Findings of a whole check, finished or not."""

    places: tuple[SamplingPlace, ...]
    lengths: tuple[int, ...]
    """Draft lengths that took turns."""
    siblings: bool
    """Whether siblings were checked too, in their turn."""
    found: Found
    """Findings of the first range of seeds, to which all figures belong."""
    suspicious: tuple[str, ...]
    """Names of suspicious p-values in the first range."""
    repeats: tuple[Found, ...]
    """Findings of the further ranges that were drawn because of these."""
    deviating: tuple[str, ...]
    """Names of p-values that were suspicious in all ranges."""

    @property
    def guessed(self) -> bool:
        """Whether anything was drafted at all."""
        return sum(self.found.branches.values()) > self.found.branches[Branch.PLAIN]


def suspects(found: Found, among: Collection[str] | None = None) -> list[str]:
    """Return the names of significant p-values, among all or among the named ones."""
    values = found.p_values()
    # A comparison that is impossible in a later range is no evidence.
    return holm(values if among is None else {name: values.get(name, 1.0) for name in among}, LEVEL)


def find(samples: Sequence[Sampled], accept: Accept, seed: int) -> Found:
    """Compare all counts with their expected probabilities; `seed` is that of the Monte-Carlo draws."""
    samples = [sampled for sampled in samples if sampled.counts.samples]
    return Found(
        samples=sum(sampled.counts.samples for sampled in samples),
        fits=tuple(_fits(samples, accept, seed)),
        shares=tuple(_share(sampled, sampled.split) for sampled in samples if sampled.split and sampled.counts.guessed),
        ruled_out=sum(sampled.ruled_out() for sampled in samples),
        bounds=tuple(_bound(samples, accept, depth) for depth in range(1, DEPTH + 1)),
        branches=_branches(samples),
    )


def _fits(samples: Sequence[Sampled], accept: Accept, seed: int) -> list[Fit]:
    compared: list[tuple[str, str, list[Cells | None]]] = []
    for depth, name in enumerate(_TOKENS, start=1):
        groups = [sampled.law_cells(depth) for sampled in samples]
        compared += [(name, sampled.place.prompt, [cells]) for sampled, cells in zip(samples, groups, strict=True)]
        compared += [(name, ALL, groups)] if len(samples) > 1 else []
    if accept.exact:
        compared += [(name, ALL, groups) for name, groups in _by_branch(samples).items()]
    # Enough draws for a p-value that is significant among all of them.
    draws = int(4 * len(compared) / LEVEL)
    fits = ((name, place, _goodness(groups, draws, seed)) for name, place, groups in compared)
    return [Fit(name, place, found) for name, place, found in fits if found is not None]


def _by_branch(samples: Sequence[Sampled]) -> dict[str, list[Cells | None]]:
    return {
        "accepted": [sampled.kept_cells() for sampled in samples],
        "replacement": [sampled.replaced_cells() for sampled in samples],
        "bonus": [cells for sampled in samples for cells in sampled.bonus_cells(after_sibling=False)],
        "after a sibling": [cells for sampled in samples for cells in sampled.bonus_cells(after_sibling=True)],
    }


def _goodness(groups: Sequence[Cells | None], draws: int, seed: int) -> Goodness | None:
    return goodness([cells for cells in groups if cells is not None], draws, seed)


def _share(sampled: Sampled, split: Split) -> KeptShare:
    guessed, kept = sampled.counts.guessed, sum(sampled.counts.first(Branch.ACCEPTED).values())
    interval, p = chance_interval(kept, guessed), binomial_p(kept, guessed, split.share_kept)
    return KeptShare(sampled.place.prompt, guessed, kept, split.share_kept, interval, p)


def _bound(samples: Sequence[Sampled], accept: Accept, depth: int) -> Bound:
    """Return the bound for the first `depth` tokens.

    Coupled: the distance of two distributions is at most the probability that joint draws differ (coupling inequality);
    here both draws share a seed. Otherwise by `distance_bound`, where paths counted together are assumed to be as far
    off as possible: by less than their probability in the law.
    """
    total = sum(sampled.counts.samples for sampled in samples)
    if accept is Accept.COUPLED:
        differing = sum(sampled.counts.differing[depth - 1] for sampled in samples)
        return Bound(depth, differing / total, chance_bound(differing, total), "seeds")
    measured = weighted(samples, lambda sampled: sampled.distance(depth))
    unresolved = weighted(samples, lambda sampled: sampled.laws[depth - 1].rest)
    return Bound(depth, measured, min(1.0, distance_bound(measured, total) + unresolved), "counts")


def _branches(samples: Sequence[Sampled]) -> dict[str, int]:
    counts = dict.fromkeys(Branch, 0)
    for sampled in samples:
        for (_, how), count in sampled.counts.outcomes.items():
            for branch in how:
                counts[branch] += count
    return {branch.value: count for branch, count in counts.items()}
