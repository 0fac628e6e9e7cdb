"""What the answers of a distribution check show: how well counts fit, what is suspicious, how far off it can be."""

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
from app.verify.distribution.places import Place
from models.sampling.accept import Accept

LEVEL = 0.0099
"""Chance that one range of seeds makes anything look suspicious where nothing is wrong."""
ALL = "all"
"""Name of all places together."""
_TOKENS = ("first token", "first 2 tokens", "first 3 tokens")


@dataclass(frozen=True, slots=True)
class Fit:
    """One comparison of counts with their chances."""

    name: str
    place: str
    """Id of the place's prompt, or `ALL`."""
    goodness: Goodness


@dataclass(frozen=True, slots=True)
class Share:
    """How often the first guess was kept at one place."""

    place: str
    guessed: int
    kept: int
    expected: float
    """Chance that the rule gives it."""
    interval: tuple[float, float]
    """Of the chance, with 99 % confidence."""
    p: float


@dataclass(frozen=True, slots=True)
class Bound:
    """How far the drafted text is from the target's own distribution, averaged over the places."""

    tokens: int
    """How many first tokens of an answer are looked at as one."""
    measured: float
    """By counts: distance of the shares, noise included. By seeds: share of answers that are not plain decoding's."""
    at_most: float
    """Total variation distance with 99 % confidence."""
    by: str
    """ "counts", or "seeds": the coupled rule says the same with the same seed, so what differs is all there is."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one range of seeds shows."""

    samples: int
    fits: tuple[Fit, ...]
    shares: tuple[Share, ...]
    ruled_out: int
    """Answers with a token that the target can't say there."""
    bounds: tuple[Bound, ...]
    """Of the first token, the first two, the first three."""
    branches: dict[str, int]
    """How the tokens that were looked at came about."""

    def p_values(self) -> dict[str, float]:
        """Return every p-value by what it is of; a token that can't come has none of chance."""
        values = {"tokens that the target rules out": 0.0 if self.ruled_out else 1.0}
        for fit in self.fits:
            where = "" if fit.place == ALL else f" at {fit.place}"
            values[f"{fit.name}{where}, chi-square"] = fit.goodness.chi_square_p
            values[f"{fit.name}{where}, G"] = fit.goodness.g_p
        for share in self.shares:
            values[f"share of first guesses kept at {share.place}"] = share.p
        return values


@dataclass(frozen=True, slots=True)
class Findings:
    """What a whole check shows, finished or not."""

    places: tuple[Place, ...]
    lengths: tuple[int, ...]
    """Draft lengths that took turns."""
    siblings: bool
    """Whether second guesses were checked too, in their turn."""
    found: Found
    """By the first range of seeds, which all figures are of."""
    suspicious: tuple[str, ...]
    """What looked suspicious in the first range."""
    repeats: tuple[Found, ...]
    """What the ranges show that were drawn because of that."""
    deviating: tuple[str, ...]
    """What was suspicious in all of them."""

    @property
    def guessed(self) -> bool:
        """Whether anything was guessed at all."""
        return sum(self.found.branches.values()) > self.found.branches[Branch.PLAIN]


def suspects(found: Found, among: Collection[str] | None = None) -> list[str]:
    """Return what is too unlikely for chance, of all there is or of what is named."""
    values = found.p_values()
    # What can't be compared any more is no evidence.
    return holm(values if among is None else {name: values.get(name, 1.0) for name in among}, LEVEL)


def find(samples: Sequence[Sampled], accept: Accept, seed: int) -> Found:
    """Lay all counts beside their chances; `seed` is that of Monte-Carlo draws."""
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
    # Enough for a p-value that stands out among all of them.
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


def _share(sampled: Sampled, split: Split) -> Share:
    guessed, kept = sampled.counts.guessed, sum(sampled.counts.first(Branch.ACCEPTED).values())
    interval, p = chance_interval(kept, guessed), binomial_p(kept, guessed, split.share_kept)
    return Share(sampled.place.prompt, guessed, kept, split.share_kept, interval, p)


def _bound(samples: Sequence[Sampled], accept: Accept, depth: int) -> Bound:
    """Return the bound for the first `depth` tokens.

    Coupled: two laws are no further apart than the chance that draws of both differ, however these hang together
    (coupling inequality); here they share a seed. Otherwise by `distance_bound`, with the ways that are not told apart
    as far off as they can be: by less than their chance in the law.
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
        for (_, how), count in sampled.counts.said.items():
            for branch in how:
                counts[branch] += count
    return {branch.value: count for branch, count in counts.items()}
