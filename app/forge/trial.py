"""Trial of a forged drafter: timed answers to held-back prompts, beside plain decoding on the same ones."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from app.bench.measuring.arithmetic import geometric_mean
from app.bench.measuring.arm_names import parse_arms
from app.bench.measuring.arms import ArmAnswer, BenchPrompt, Skipped
from app.bench.measuring.benchmark import BenchRun
from app.bench.measuring.results import overall
from app.bench.prompts import choose, read_prompts
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from app.forge.methods.base import Tell
from app.forge.request import ForgeRequest
from app.shell.paths import machine_memory
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import LocalspecError
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams

CLASSES = ("chat", "code", "math", "qa", "edit")
_PROMPTS = 2
"""Prompts of each class."""
_TOKENS = 96
_TEMPERATURES = (0.0, 0.7)
_LENGTHS = (1, 3)
"""Draft lengths that are tried."""
LEAST = 1.02
"""Speed over that without the drafter from which it pays: below is the noise of a trial."""


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """Figures of one draft length at one temperature."""

    temperature: float
    length: int
    speed_up: float
    """Over plain decoding: the geometric mean of the classes, at usual pass costs where these were measured."""
    accepted: tuple[float, ...]
    """Share of drafts that were accepted at least so far, by position."""
    rounds: int
    seconds_a_round: float
    """Of drafting alone."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Outcome of a trial."""

    figures: tuple[ArmFigures, ...]
    plain_tokens_per_second: float
    tokens: int
    """Tokens of the plain answers."""
    rival: float | None = None
    """Speed-up with the draft model that the drafter began with; None for none."""

    @property
    def length(self) -> int:
        """The draft length with the best speed over all temperatures."""
        return max(_LENGTHS, key=self.speed_up)

    def speed_up(self, length: int) -> float:
        """Return the mean speed-up of a draft length over all temperatures."""
        return geometric_mean(each.speed_up for each in self.figures if each.length == length) or 0.0

    @property
    def best(self) -> float:
        """Speed-up of the best length."""
        return self.speed_up(self.length)

    @property
    def pays(self) -> bool:
        """Whether the drafter is faster than without it by more than noise."""
        return self.best >= LEAST * max(1.0, self.rival or 0.0)

    @property
    def record(self) -> dict[str, Any]:
        """All figures, for cards and JSON."""
        return {
            "pays": self.pays,
            "speed_up": self.best,
            "draft_length": self.length,
            "plain_tokens_per_second": self.plain_tokens_per_second,
            "tokens": self.tokens,
            "speed_up_before": self.rival,
            "arms": [asdict(each) for each in self.figures],
        }


def try_out(request: ForgeRequest, drafter: Path, abort: AbortFlag, tell: Tell) -> Trial:
    """Let a target answer held-back prompts with and without a drafter; raises LocalspecError and Cancelled.

    A draft model that the drafter began with answers the same ones.
    """
    found = _tried(request, drafter, abort, tell, "trial")
    if request.draft is None:
        return found
    return replace(found, rival=_tried(request, request.draft, abort, tell, "trial without it").best)


def _tried(request: ForgeRequest, drafter: Path, abort: AbortFlag, tell: Tell, what: str) -> Trial:
    target, threads = request.target, request.threads
    options = LlamaOptions(threads=threads, batch_threads=threads)
    plan = LoadPlan(str(target), parse_drafter(str(drafter)), options, machine_memory())
    arms = parse_arms([f"model:{length}" for length in _LENGTHS], max(_LENGTHS), has_draft=True)
    run = BenchRun(Loader(plan, abort, time.perf_counter, lambda *_: None), time.perf_counter, arms)
    prompts = [*choose(read_prompts(None), CLASSES, _PROMPTS), *request.held]
    wanted, answers = len(prompts) * len(arms) * len(_TEMPERATURES), list[ArmAnswer]()
    begun = 0

    def on_answer(prompt: BenchPrompt, arm: str) -> None:
        nonlocal begun
        tell(f"{what}: {prompt.id}, {arm}", begun, wanted)
        begun += 1

    try:
        conditions = run.load(allow_rounding=False)
        samplings = [SamplingParams(temperature=temperature, seed=1) for temperature in _TEMPERATURES]
        for event in run.run(prompts, samplings, _TOKENS, on_answer):
            if not isinstance(event, Skipped):
                answers += event
    finally:
        run.close()
    if not answers:
        raise LocalspecError(
            f"{target.name} answered none of the held-back prompts, so the drafter can't be tried.",
            hint="Its context is too short for them. Give shorter prompts of your own with --data.",
        )
    speeds = {
        (each.temperature, each.arm): each.steady.speed_up if each.steady else each.speed_up
        for each in overall(answers, conditions.oracle)
    }
    figures = [_figures(answers, *key, speed_up) for key, speed_up in speeds.items()]
    plain = [answer for answer in answers if answer.arm == "off"]
    tokens = sum(len(answer.tokens) for answer in plain)
    return Trial(tuple(figures), tokens / sum(answer.seconds for answer in plain), tokens)


def _figures(answers: Sequence[ArmAnswer], temperature: float, arm: str, speed_up: float) -> ArmFigures:
    mine = [answer for answer in answers if (answer.temperature, answer.arm) == (temperature, arm)]
    length = int(arm.partition(":")[2])
    # A round over one token had no draft.
    drafted = [
        (emitted, seconds)
        for answer in mine
        for (_, emitted), width, seconds in zip(answer.rounds, answer.widths, answer.drafting, strict=True)
        if width == length + 1
    ]
    rounds = max(1, len(drafted))
    accepted = tuple(sum(emitted > place for emitted, _ in drafted) / rounds for place in range(1, length + 1))
    return ArmFigures(temperature, length, speed_up, accepted, len(drafted), sum(each for _, each in drafted) / rounds)
