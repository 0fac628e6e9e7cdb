"""Request of `verify --statistics`, read from its flags; contradictions are refused at once."""

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
"""Most places for each prompt of a class."""


@dataclass(frozen=True, slots=True)
class StatisticsRequest:
    """Settings of one `verify --statistics` run."""

    bench: BenchRequest
    """Models, prompts and sampling, chosen as for a benchmark."""
    arm: ArmSpec
    """Drafter to check, and its draft length."""
    accept: Accept
    samples: int
    """Answers to draw in all."""
    places: int
    """Most places to draw them at."""

    @property
    def sampling(self) -> SamplingParams:
        """Sampling settings; the seed is that of the first answer."""
        return self.bench.samplings[0]


def read_statistics(model: str | None, flags: dict[str, Any]) -> StatisticsRequest:
    """Read the argument and flags; raises UsageError."""
    drafter = ("model",) if has_draft(model, flags) else ("suffix",)
    chosen = {"temp": flags["temp"] or _TEMPERATURE, "vs": flags.get("vs") or drafter, "plot": None}
    bench = read_bench(model, {**flags, **chosen})
    _check_temperature(bench)
    return StatisticsRequest(bench, _arm(bench), Accept(flags["accept"]), flags["samples"], _PLACES * flags["limit"])


def _check_temperature(bench: BenchRequest) -> None:
    if any(sampling.greedy for sampling in bench.samplings):
        raise UsageError(
            "--statistics needs a temperature above 0: at --temp 0 no token is drawn at random.",
            hint="Give a temperature above 0, or leave out --statistics: tokens are then compared one by one.",
        )
    if len(bench.samplings) > 1:
        temperatures = ", ".join(f"{sampling.temperature:g}" for sampling in bench.samplings)
        raise UsageError(f"--statistics checks one temperature, and --temp names {temperatures}.", hint="Name one.")


def _arm(bench: BenchRequest) -> ArmSpec:
    arms = [arm for arm in bench.arms if arm.kind != PLAIN]
    if len(arms) != 1 or arms[0].kind in ("auto", "text"):
        names = ", ".join(str(arm) for arm in bench.arms)
        raise UsageError(
            f"--statistics checks one drafter at a time, and --vs names {names}.",
            hint=f"Name one of {', '.join(FREE_DRAFTERS)}, and with a draft model model.",
        )
    return arms[0]
