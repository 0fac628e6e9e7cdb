"""League of methods: for each class of prompts their costs, the acceptance of their drafts, and their speed-ups.

Costs are in one-token passes of the target, the median of plain decoding's in the class. The drafter's start counts as
drafting, so a draft model's reading of the prompt is part of its cost.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from app.bench.measuring.arms import PLAIN, ArmAnswer
from app.bench.measuring.results import Result
from app.bench.measuring.steady import pass_seconds
from app.engine.decoding.stats import ratio
from drafters.registry import AUTO

NO_DRAFT = "no draft"
"""Name for rounds of `auto` without a draft."""
AS_FAST = 0.98
"""Least speed of `auto`, as a share of the fastest method's, that counts as equal: bench runs vary by as much."""


@dataclass(frozen=True, slots=True)
class MethodFigures:
    """Figures of one method in one class at one temperature; None where nothing was drafted, or too little known."""

    method: str
    """Name of the arm."""
    speed_up: float | None
    """Over plain decoding, geometric mean over the prompts."""
    interval: tuple[float, float] | None
    """95 % interval of the speed-up, prompts resampled."""
    usual_speed_up: float | None
    """The same with every pass at its usual cost; None without measured costs."""
    tokens_a_round: float | None
    """Emitted tokens of a round, drafts or none."""
    acceptance_rate: float | None
    """Accepted over drafted tokens."""
    acceptance: tuple[float, ...]
    """Share accepted of the drafts that reached each position."""
    cost_a_token: float | None
    """Drafting for each drafted token, in one-token passes."""
    cost_a_round: float | None
    """Drafting for each round, in one-token passes."""
    pass_cost: float | None
    """Mean pass of the target in a round, in one-token passes."""
    forks: int
    """Answers that differ from plain decoding's."""


@dataclass(frozen=True, slots=True)
class ClassLeague:
    """Methods ranked in one class at one temperature."""

    class_name: str
    temperature: float
    methods: tuple[MethodFigures, ...]
    """The fastest first, plain decoding among them."""
    auto_rounds: tuple[tuple[str, float], ...]
    """Methods that `auto` drafted with, and the share of its rounds, the largest first; () without that arm."""

    @property
    def best(self) -> MethodFigures | None:
        """Return the fastest single method, plain decoding among them; None where nothing has a speed."""
        return next((each for each in self.methods if each.method != AUTO and each.speed_up is not None), None)

    @property
    def auto(self) -> MethodFigures | None:
        """Return the figures of `auto`; None without that arm, or without a speed of it."""
        return next((each for each in self.methods if each.method == AUTO and each.speed_up is not None), None)

    @property
    def auto_share(self) -> float | None:
        """Return auto's speed over that of the fastest single method; None where one of them has none."""
        best, auto = self.best, self.auto
        if best is None or auto is None or not best.speed_up or auto.speed_up is None:
            return None
        return auto.speed_up / best.speed_up


def leagues(results: Sequence[Result], answers: Sequence[ArmAnswer]) -> list[ClassLeague]:
    """Return the league of each class at each temperature, in the order of the results."""
    known = _known_sources(answers)
    found = []
    for (temperature, name), group in groupby(results, key=lambda each: (each.temperature, each.class_name)):
        here = [one for one in answers if (one.temperature, one.class_name) == (temperature, name)]
        one_token = median(pass_seconds([one for one in here if one.arm == PLAIN]))
        rows = [_figures(each, [one for one in here if one.arm == each.arm], one_token) for each in group]
        ranked = tuple(sorted(rows, key=lambda row: -(row.speed_up or 0.0)))
        auto = [one for one in here if one.arm == AUTO]
        found.append(ClassLeague(name, temperature, ranked, tuple(_rounds(auto, known))))
    return found


def _figures(result: Result, answers: Sequence[ArmAnswer], one_token: float) -> MethodFigures:
    stats = [one.stats for one in answers]
    rounds = sum(len(one.rounds) for one in answers)
    drafting = sum(sum(one.drafting) for one in answers)
    passes = pass_seconds(answers)
    drafts = bool(sum(stat.drafted for stat in stats))
    pairs = zip(result.accepted_at, result.drafted_at, strict=True)
    return MethodFigures(
        method=result.arm,
        speed_up=result.speed_up,
        interval=result.interval,
        usual_speed_up=result.steady.speed_up if result.steady else None,
        tokens_a_round=ratio(sum(tokens for one in answers for _, tokens in one.rounds), rounds),
        acceptance_rate=result.acceptance_rate,
        acceptance=tuple(accepted / reached for accepted, reached in pairs if reached),
        cost_a_token=ratio(drafting, one_token * sum(stat.drafted for stat in stats)) if drafts else None,
        cost_a_round=None if result.arm == PLAIN else ratio(drafting, one_token * rounds),
        pass_cost=ratio(sum(passes), one_token * len(passes)),
        forks=len(result.forks),
    )


def _known_sources(answers: Iterable[ArmAnswer]) -> dict[str, str]:
    """Return the kind of the arm, such as "model", for each source that only one kind of arm drafts with."""
    kinds: dict[str, set[str]] = {}
    for one in answers:
        if one.arm != AUTO:
            for source in {*one.sources} - {""}:
                kinds.setdefault(source, set()).add(one.arm.partition(":")[0])
    return {source: names.pop() for source, names in kinds.items() if len(names) == 1}


def _rounds(auto: Sequence[ArmAnswer], known: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    """Yield each method that drafted, or NO_DRAFT, with the share of all rounds."""
    counts = Counter(_method(source, known) for one in auto for source in one.sources)
    for method, count in counts.most_common():
        yield method, count / counts.total()


def _method(source: str, known: Mapping[str, str]) -> str:
    """Return the method of a draft's source; a copy that a draft model read and continued has both names."""
    if not source:
        return NO_DRAFT
    if source in known:
        return known[source]
    model, plus, free = source.rpartition("+")
    if plus:
        return f"{_method(model, known)}+{_method(free, known)}"
    return source.partition(":")[0]
