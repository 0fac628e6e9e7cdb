"""From the flags of `verify --statistics` to what is to be drawn; what makes no sense is refused at once."""

from dataclasses import dataclass
from typing import Any

from app.bench.measuring.arm_names import ArmSpec
from app.bench.measuring.arms import PLAIN
from app.bench.request import BenchRequest, read_bench
from app.verify.prompt_limit import has_draft
from drafters.registry import FREE_DRAFTERS
from models.errors import UsageError
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams

_TEMPERATURE = ("1",)
_PLACES = 4
"""Places for each prompt of a class that is asked for."""


@dataclass(frozen=True, slots=True)
class StatisticsRequest:
    """Everything that one `verify --statistics` was asked for."""

    asked: BenchRequest
    """Models, prompts and sampling, which are chosen as for a benchmark."""
    arm: ArmSpec
    """Who guesses, and how much."""
    accept: Accept
    samples: int
    """Answers to draw in all."""
    places: int
    """Most places to draw them at."""

    @property
    def sampling(self) -> SamplingParams:
        """How to sample; the seed is that of the first answer."""
        return self.asked.samplings[0]


def read_statistics(model: str | None, flags: dict[str, Any]) -> StatisticsRequest:
    """Read the argument and flags; raises UsageError."""
    drafter = ("model",) if has_draft(model, flags) else ("suffix",)
    chosen = {"temp": flags["temp"] or _TEMPERATURE, "vs": flags.get("vs") or drafter, "plot": None}
    asked = read_bench(model, {**flags, **chosen})
    _check_temperature(asked)
    return StatisticsRequest(asked, _arm(asked), Accept(flags["accept"]), flags["samples"], _PLACES * flags["limit"])


def _check_temperature(asked: BenchRequest) -> None:
    if any(sampling.greedy for sampling in asked.samplings):
        raise UsageError(
            "--statistics at --temp 0: nothing is left to chance, so there is nothing to count.",
            hint="Give a temperature above 0, or leave out --statistics: tokens are then compared one by one.",
        )
    if len(asked.samplings) > 1:
        temperatures = ", ".join(f"{sampling.temperature:g}" for sampling in asked.samplings)
        raise UsageError(f"--statistics checks one temperature, and --temp names {temperatures}.", hint="Name one.")


def _arm(asked: BenchRequest) -> ArmSpec:
    arms = [arm for arm in asked.arms if arm.kind != PLAIN]
    if len(arms) != 1 or arms[0].kind == "auto":
        names = ", ".join(str(arm) for arm in asked.arms)
        raise UsageError(
            f"--statistics checks one drafter at a time, and --vs names {names}.",
            hint=f"Name one of {', '.join(FREE_DRAFTERS)}, and with a draft model model.",
        )
    return arms[0]
