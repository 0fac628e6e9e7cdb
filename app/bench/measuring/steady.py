"""Speed-ups at usual pass costs: every pass counts as the median of passes of about its width.

The texts of two arms are equal, so the arms differ in the number and widths of their passes and in the drafter's time.
Other work of the machine slows one answer down and not the other, by a tenth and more; it hardly moves the median over
all passes of a class.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from app.bench.measuring.arithmetic import geometric_mean, interval
from app.bench.measuring.arms import ArmAnswer

_NEAREST = 9
"""Passes of the nearest widths that make a median: a rare width has too few of its own."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Speed-up at usual pass costs, geometric mean over prompts."""

    speed_up: float
    interval: tuple[float, float] | None
    """95 % interval, prompts resampled."""
    worst: tuple[str, float] | None
    """Id of the prompt with the smallest speed-up, and that speed-up; None over several classes."""


def steady(speed_ups: dict[str, float]) -> Steady | None:
    """Return the figures of one class, from the speed-up of each prompt; None without prompts."""
    mean = geometric_mean(speed_ups.values())
    if mean is None:
        return None
    worst = min(speed_ups.items(), key=lambda item: item[1])
    return Steady(mean, interval([list(speed_ups.values())]), worst)


def steady_speed_ups(
    members: Sequence[ArmAnswer], plain: Sequence[ArmAnswer], relative: Callable[[int], float]
) -> dict[str, float]:
    """Return the speed-up of each prompt over plain decoding, by its id; all answers are of one class.

    `relative(w)` is the measured cost of a pass over w tokens, in one-token passes; the arm's own passes then correct
    it. The drafter's time counts as measured.
    """
    one = {prompt: median(pass_seconds(answers)) for prompt, answers in _by_prompt(plain).items()}
    shared = {prompt: answers for prompt, answers in _by_prompt(members).items() if prompt in one}
    taken = [
        (width, seconds / one[prompt])
        for prompt, answers in shared.items()
        for answer in answers
        for width, seconds in zip(answer.widths, pass_seconds([answer]), strict=True)
    ]
    measured_cost = {
        width: relative(width) * _factor(taken, width, relative) for width in {width for width, _ in taken}
    }
    return {prompt: _speed_up(answers, measured_cost, one[prompt]) for prompt, answers in shared.items()}


def _speed_up(answers: Iterable[ArmAnswer], measured_cost: dict[int, float], one: float) -> float:
    tokens = cost = 0.0
    for answer in answers:
        tokens += len(answer.tokens)
        cost += sum(measured_cost[width] for width in answer.widths) + sum(answer.drafting) / one
    return tokens / cost


def pass_seconds(answers: Iterable[ArmAnswer]) -> list[float]:
    """Return the seconds of each round without the drafter's."""
    return [
        seconds - drafting
        for answer in answers
        for (seconds, _), drafting in zip(answer.rounds, answer.drafting, strict=True)
    ]


def _factor(taken: Sequence[tuple[int, float]], width: int, relative: Callable[[int], float]) -> float:
    """Return the factor of passes of about this width over their measured cost, at the depth of these texts."""
    near = sorted((abs(math.log(other / width)), cost / relative(other)) for other, cost in taken)
    reach = near[min(_NEAREST, len(near)) - 1][0]
    return median(factor for distance, factor in near if distance <= reach)


def _by_prompt(answers: Iterable[ArmAnswer]) -> dict[str, list[ArmAnswer]]:
    groups: dict[str, list[ArmAnswer]] = {}
    for answer in answers:
        groups.setdefault(answer.prompt, []).append(answer)
    return groups
