"""Results of a benchmark: figures of each arm for each class of prompts, with a verdict.

Speeds are over the time after the prompt was read, the drafter's start and the first round included. A speed-up is the
ratio of two speeds on one prompt, all its turns together; a class has the geometric mean over its prompts.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from app.bench.measuring.arithmetic import gaps, geometric_mean, interval, oracle_speed_up, quantile
from app.bench.measuring.arms import PLAIN, ArmAnswer
from app.bench.measuring.steady import Steady, steady, steady_speed_ups
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.stats import ratio

LEAST_SPEED_UP = 0.95
"""Least speed of an arm, as a share of plain decoding's."""
_A_MILLISECOND = 0.000995
"""Seconds below which three digits would be wider than a column."""
_A_SECOND = 0.9995
"""Seconds that are "1000" in milliseconds of three digits."""


@dataclass(frozen=True, slots=True)
class ArmVerdict:
    """Verdict whether to use an arm for a class of prompts."""

    promote: bool
    reasons: tuple[str, ...]
    """Reasons for it, or all reasons against it."""


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of one arm on one class of prompts at one temperature. Rates are None where they have no meaning."""

    class_name: str
    arm: str
    temperature: float
    prompts: int
    answers: int
    tokens: int
    tokens_per_second: float | None
    speed_up: float | None
    """Over plain decoding, geometric mean over the prompts."""
    interval: tuple[float, float] | None
    """95 % interval of the speed-up, prompts resampled."""
    worst: tuple[str, float] | None
    """Id of the prompt with the smallest speed-up, and that speed-up."""
    steady: Steady | None
    """Speed-up at usual pass costs, without the machine's noise; None for plain decoding, or without measured costs."""
    gap_p50: float | None
    """Median seconds for each token, averaged over 8 consecutive tokens."""
    gap_p95: float | None
    round_p95: float | None
    """Seconds between arrivals: a round's tokens arrive at once."""
    first_token_seconds: float | None
    """Median time from the question to the first tokens."""
    drafted_at: tuple[int, ...]
    """Drafts that reached each position."""
    accepted_at: tuple[int, ...]
    acceptance_rate: float | None
    mean_acceptance_length: float | None
    """Emitted tokens per round with a draft."""
    coverage: float | None
    """Rounds with a draft over all rounds, 0 to 1."""
    oracle_share: float | None
    """Speed over that of the oracle, a drafter that knows the answer and takes no time."""
    joules_per_token: float | None
    """Energy of the processor, after the prompt was read; None where the machine does not tell."""
    forks: tuple[tuple[str, int, int], ...]
    """Prompt, turn and place of each answer that differs from plain decoding's."""
    verdict: ArmVerdict | None = None
    """None for plain decoding itself."""


@dataclass(frozen=True, slots=True)
class Overall:
    """Figures of one arm over all classes: the geometric mean of the classes' speed-ups."""

    arm: str
    temperature: float
    speed_up: float
    interval: tuple[float, float] | None
    steady: Steady | None
    """Speed-up at usual pass costs; None without measured costs."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """Costs and widest pass of an oracle."""

    curve: VerifyCurve
    widest: int

    def speed_up(self, tokens: int) -> float:
        """Return the oracle's speed-up for an answer of `tokens` tokens."""
        return oracle_speed_up(tokens, self.widest, self.curve.seconds)

    def relative(self, width: int) -> float:
        """Return the cost of a pass over `width` tokens, in one-token passes."""
        return self.curve.seconds(width) / self.curve.seconds(1)


def results(answers: Sequence[ArmAnswer], oracle: Oracle | None) -> list[Result]:
    """Return the results by temperature, class and arm, in the order of the answers."""
    found: list[Result] = []
    for group in _grouped(answers, lambda answer: (answer.temperature, answer.class_name)):
        by_arm = {members[0].arm: members for members in _grouped(group, lambda answer: answer.arm)}
        plain = _result(by_arm[PLAIN], by_arm[PLAIN], oracle)
        others = [_result(by_arm[arm], by_arm[PLAIN], oracle) for arm in by_arm if arm != PLAIN]
        found += [plain, *(replace(arm, verdict=judge(arm, plain)) for arm in others)]
    return found


def overall(answers: Sequence[ArmAnswer], oracle: Oracle | None) -> list[Overall]:
    """Return each arm's speed-up over all classes, with equal weights."""
    found: list[Overall] = []
    for group in _grouped(answers, lambda answer: (answer.temperature, answer.arm)):
        if group[0].arm == PLAIN:
            continue
        plain = [other for other in answers if other.arm == PLAIN and other.temperature == group[0].temperature]
        classes = _grouped(group, lambda answer: answer.class_name)
        measured = _of_classes(_speed_ups(members, plain) for members in classes)
        if measured is not None:
            usual = (
                _of_classes(steady_speed_ups(members, plain, oracle.relative) for members in classes)
                if oracle
                else None
            )
            found.append(Overall(group[0].arm, group[0].temperature, measured.speed_up, measured.interval, usual))
    return found


def _of_classes(speed_ups: Iterable[dict[str, float]]) -> Steady | None:
    """Return the geometric mean over classes of their geometric means; None where no class has one."""
    by_class = [list(found.values()) for found in speed_ups if found]
    mean = geometric_mean(mean for ratios in by_class if (mean := geometric_mean(ratios)) is not None)
    return None if mean is None else Steady(mean, interval(by_class), None)


def judge(arm: Result, plain: Result) -> ArmVerdict:
    """Return the verdict: promote if the p95 gap is better, the speed is kept, and the tokens are equal."""
    speed = f"speed {_speed_words(arm.speed_up)} of plain"
    gap = f"p95 gap {milliseconds(arm.gap_p95)} ms, plain {milliseconds(plain.gap_p95)}"
    against = []
    if arm.forks:
        against.append(f"{len(arm.forks)} of {arm.answers} answers differ")
    if arm.speed_up is None or arm.speed_up < LEAST_SPEED_UP:
        against.append(f"{speed}, {LEAST_SPEED_UP} needed")
    if arm.gap_p95 is None or plain.gap_p95 is None:
        against.append("no p95 gap, as the answers are too short")
    elif arm.gap_p95 >= plain.gap_p95:
        against.append(f"{gap}: not better, at {speed}")
    if not arm.coverage:
        against.append("nothing was drafted")
    if against:
        return ArmVerdict(False, tuple(against))
    return ArmVerdict(True, (speed, gap, "same tokens"))


def _result(members: Sequence[ArmAnswer], plain: Sequence[ArmAnswer], oracle: Oracle | None) -> Result:
    """Return the figures of one arm's answers to the prompts of a class, compared with plain ones; no verdict yet."""
    stats = [answer.stats for answer in members]
    speed_ups = _speed_ups(members, plain)
    rounds = [seconds for answer in members for seconds, _ in answer.rounds[1:]]
    felt = [gap for answer in members for gap in gaps(answer.rounds)]
    return Result(
        class_name=members[0].class_name,
        arm=members[0].arm,
        temperature=members[0].temperature,
        prompts=len(speed_ups),
        answers=len(members),
        tokens=sum(len(answer.tokens) for answer in members),
        tokens_per_second=_speed(members),
        speed_up=geometric_mean(speed_ups.values()),
        interval=interval([list(speed_ups.values())]),
        worst=min(speed_ups.items(), key=lambda item: item[1], default=None),
        steady=_steady(members, plain, oracle),
        gap_p50=quantile(felt, 0.5),
        gap_p95=quantile(felt, 0.95),
        round_p95=quantile(rounds, 0.95),
        first_token_seconds=quantile([answer.first_token_seconds for answer in members], 0.5),
        drafted_at=_added(stat.drafted_at for stat in stats),
        accepted_at=_added(stat.accepted_at for stat in stats),
        acceptance_rate=ratio(sum(stat.accepted for stat in stats), sum(stat.drafted for stat in stats)),
        mean_acceptance_length=_mean_acceptance_length(members),
        coverage=ratio(sum(stat.drafts for stat in stats), sum(stat.rounds for stat in stats)),
        oracle_share=_oracle_share(members, plain, oracle),
        joules_per_token=_joules_per_token(members),
        forks=tuple((answer.prompt, answer.turn, answer.fork) for answer in members if answer.fork is not None),
    )


def _speed(answers: Iterable[ArmAnswer]) -> float | None:
    """Return the tokens of some answers over their seconds."""
    answers = list(answers)
    return ratio(sum(len(answer.tokens) for answer in answers), sum(answer.seconds for answer in answers))


def _joules_per_token(answers: Sequence[ArmAnswer]) -> float | None:
    joules = [answer.joules for answer in answers if answer.joules is not None]
    return ratio(sum(joules), sum(len(answer.tokens) for answer in answers)) if len(joules) == len(answers) else None


def _speed_ups(members: Sequence[ArmAnswer], plain: Sequence[ArmAnswer]) -> dict[str, float]:
    """Return the speed-up of each prompt, by its id."""
    beside = {group[0].prompt: _speed(group) for group in _grouped(plain, lambda answer: answer.prompt)}
    found: dict[str, float] = {}
    for group in _grouped(members, lambda answer: answer.prompt):
        speed, plain_speed = _speed(group), beside[group[0].prompt]
        if speed is not None and plain_speed is not None:
            found[group[0].prompt] = speed / plain_speed
    return found


def _steady(members: Sequence[ArmAnswer], plain: Sequence[ArmAnswer], oracle: Oracle | None) -> Steady | None:
    return None if oracle is None or members is plain else steady(steady_speed_ups(members, plain, oracle.relative))


def _oracle_share(members: Sequence[ArmAnswer], plain: Sequence[ArmAnswer], oracle: Oracle | None) -> float | None:
    """Return the arm's speed over the oracle's, geometric mean over the prompts.

    The oracle's speed on a prompt is the plain speed measured there times the oracle's speed-up, so that the depth of
    the context and slow minutes count in both.
    """
    if oracle is None:
        return None
    best: dict[str, list[tuple[int, float]]] = {}
    for answer in plain:
        count = len(answer.tokens)
        best.setdefault(answer.prompt, []).append((count, count / oracle.speed_up(count)))
    speed_ups = _speed_ups(members, plain)
    return geometric_mean(
        speed_ups[prompt] * sum(cost for _, cost in parts) / sum(count for count, _ in parts)
        for prompt, parts in best.items()
        if prompt in speed_ups
    )


def _mean_acceptance_length(members: Iterable[ArmAnswer]) -> float | None:
    stats = [answer.stats for answer in members]
    emitted = sum((stat.mean_acceptance_length or 0.0) * stat.drafts for stat in stats)
    return ratio(emitted, sum(stat.drafts for stat in stats))


def _added(counts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Add up counts by position; answers reach different depths."""
    return tuple(sum(column) for column in zip_longest(*counts, fillvalue=0))


def _grouped(answers: Iterable[ArmAnswer], key: Callable[[ArmAnswer], Hashable]) -> list[list[ArmAnswer]]:
    """Return the answers by key, in the order in which the keys first come."""
    groups: dict[Hashable, list[ArmAnswer]] = {}
    for answer in answers:
        groups.setdefault(key(answer), []).append(answer)
    return list(groups.values())


def _speed_words(speed_up: float | None) -> str:
    """Return a speed-up with two digits; one below the needed value is never rounded up to it."""
    if speed_up is None:
        return "-"
    return f"{speed_up if speed_up >= LEAST_SPEED_UP else min(speed_up, LEAST_SPEED_UP - 0.01):.2f}"


def milliseconds(seconds: float | None) -> str:
    """Return a time between tokens in milliseconds, with three significant digits; "-" for none."""
    if seconds is None:
        return "-"
    if seconds < _A_MILLISECOND:
        return f"{seconds * 1000:.2f}"
    # The format "g" would write a second as 1e+03.
    return f"{seconds * 1000:.3g}" if seconds < _A_SECOND else f"{seconds * 1000:.0f}"
