"""Trial of a forged drafter: timed answers to held-back prompts, beside plain decoding on the same ones."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from app import __version__
from app.bench.measuring.arithmetic import geometric_mean
from app.bench.measuring.arm_names import parse_arms
from app.bench.measuring.arms import PLAIN, ArmAnswer, BenchPrompt, Skipped
from app.bench.measuring.benchmark import BenchRun
from app.bench.measuring.results import Oracle, overall
from app.bench.prompts import choose, read_prompts
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from app.forge.methods.base import Tell
from app.forge.request import ForgeRequest
from app.forge.trial_answers import TrialAnswers
from app.shell.paths import machine_memory
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.errors import LocalspecError
from models.gguf.fingerprint import fingerprint
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams

CLASSES = ("chat", "code", "math", "qa", "edit")
_PROMPTS = 2
"""Prompts of each class."""
_TOKENS = 96
_TEMPERATURES = (0.0, 0.7)
_LENGTHS = (1, 3)
"""Draft lengths that are tried."""
_WITH, _WITHOUT = "trial", "trial without it"
"""Names of the part with the drafter, and of that with the draft model that it began with."""
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
    """Let a target answer held-back prompts with and without a drafter; raises LocalspecError, OSError and Cancelled.

    A draft model that the drafter began with answers the same ones. The answers are in the work folder until
    `forget_trial` removes them: a trial that was stopped goes on after them. Those of one that has ended are used again
    with `--keep`; without it, the drafter is tried once more.
    """
    parts = [_Comparison(request, drafter, _WITH, abort, tell)]
    if request.draft is not None:
        parts.append(_Comparison(request, request.draft, _WITHOUT, abort, tell))
    if all(part.stored.finished for part in parts) and not request.keep:
        forget_trial(request.work)
        return try_out(request, drafter, abort, tell)
    found, *rival = [part.run() for part in parts]
    return replace(found, rival=rival[0].best) if rival else found


def forget_trial(work: Path) -> None:
    """Remove the answers of a trial from the work folder; raises OSError."""
    for what in (_WITH, _WITHOUT):
        _answers_file(work, what).unlink(missing_ok=True)


def _answers_file(work: Path, what: str) -> Path:
    return work / f"{what.replace(' ', '-')}.json"


class _Comparison:
    """Answers with one drafter, beside plain ones to the same prompts."""

    def __init__(self, request: ForgeRequest, drafter: Path, what: str, abort: AbortFlag, tell: Tell) -> None:
        self._request, self._what, self._tell = request, what, tell
        self._prompts = [*choose(read_prompts(None), CLASSES, _PROMPTS), *request.held]
        self._run = _bench_run(request, drafter, abort)
        conditions = {
            "version": __version__,
            "target": asdict(request.identity),
            "drafter": asdict(fingerprint(drafter)),
            "threads": request.threads,
            "prompts": hashlib.sha256(repr((self._prompts, _TOKENS, _TEMPERATURES, _LENGTHS)).encode()).hexdigest(),
        }
        self.stored = TrialAnswers(_answers_file(request.work, what), conditions)
        self._begun = len(self.stored.answers)

    def run(self) -> Trial:
        """Ask what was not asked yet; return the figures of all answers."""
        try:
            conditions = self._run.load(allow_rounding=False)
            for temperature in _TEMPERATURES:
                self._ask(temperature)
        finally:
            self._run.close()
        if not self.stored.answers:
            raise LocalspecError(
                f"{self._request.target.name} answered none of the held-back prompts, so the drafter can't be tried.",
                hint="Its context is too short for them. Give shorter prompts of your own with --data.",
            )
        self.stored.finish()
        return _trial_of(self.stored.answers, conditions.oracle)

    def _ask(self, temperature: float) -> None:
        left = [prompt for prompt in self._prompts if not self.stored.has(prompt.id, temperature)]
        turns = {prompt.id: _turns(prompt) for prompt in left}
        # Each prompt has a seed of its own: the number of those before it is added.
        sampling = SamplingParams(temperature=temperature, seed=1 + len(self._prompts) - len(left))
        answers: list[ArmAnswer] = []
        for event in self._run.run(left, [sampling], _TOKENS, self._on_answer) if left else ():
            if isinstance(event, Skipped):
                # Turns before the one that does not suit the model count all the same.
                self.stored.answers += answers
                answers = []
                continue
            answers += event
            if event[0].turn + 1 == turns[event[0].prompt]:
                self.stored.add(answers)
                answers = []

    def _on_answer(self, prompt: BenchPrompt, arm: str) -> None:
        wanted = sum(map(_turns, self._prompts)) * (len(_LENGTHS) + 1) * len(_TEMPERATURES)
        self._tell(f"{self._what}: {prompt.id}, {arm}", self._begun, wanted)
        self._begun += 1


def _turns(prompt: BenchPrompt) -> int:
    """Return the answers of an arm to a prompt."""
    return len(prompt.turns) or 1


def _bench_run(request: ForgeRequest, drafter: Path, abort: AbortFlag) -> BenchRun:
    options = LlamaOptions(threads=request.threads, batch_threads=request.threads)
    plan = LoadPlan(str(request.target), parse_drafter(str(drafter)), options, machine_memory())
    arms = parse_arms([f"model:{length}" for length in _LENGTHS], max(_LENGTHS), has_draft=True)
    return BenchRun(Loader(plan, abort, time.perf_counter, lambda *_: None), time.perf_counter, arms)


def _trial_of(answers: Sequence[ArmAnswer], oracle: Oracle | None) -> Trial:
    speeds = {
        (each.temperature, each.arm): each.steady.speed_up if each.steady else each.speed_up
        for each in overall(answers, oracle)
    }
    figures = [_figures(answers, *key, speed_up) for key, speed_up in speeds.items()]
    plain = [answer for answer in answers if answer.arm == PLAIN]
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
