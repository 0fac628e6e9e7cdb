"""The check behind `localspec verify`: drafted answers beside plain ones, token by token, and every fork explained."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from app.bench.measuring.arm_names import ArmSpec
from app.bench.measuring.arms import PLAIN, Answer, BenchPrompt, OnAnswer, Skipped, Turn
from app.bench.measuring.benchmark import BenchRun, Conditions
from app.engine.costs.provenance import OnHash, Provenance, provenance
from app.engine.decoding.round import Clock
from app.engine.runtime.loader import Loader
from app.verify.tokens.fork import Fork, ForkKind, differs, explain
from models.abort import AbortFlag
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams

OnFork = Callable[[Answer], None]
"""Told before a fork is explained: the answer that is not plain's."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One turn that all arms have answered, and what was behind every difference."""

    turn: Turn
    forks: tuple[Fork, ...]


class Outcome(StrEnum):
    """What a whole comparison shows."""

    EXACT = "exact"
    """Every token is plain decoding's."""
    ROUNDING = "rounding"
    """There are forks, and all of them are near-ties."""
    BUG = "bug"
    """There is a fork that rounding does not explain."""
    NOTHING = "nothing"
    """Nothing was drafted, so nothing is shown."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What was compared of one arm at one temperature."""

    temperature: float
    arm: str
    answers: int
    drafting: int
    """Answers in which something was drafted: of the others all arms are plain decoding."""
    tokens: int
    """Tokens compared: of an answer that forks, those before the fork."""
    drafted: int
    accepted: int
    widths: tuple[int, ...]
    """Widths of its passes over the target, each once, ascending."""
    near_ties: int
    bugs: int


class Certification:
    """Models and their comparison. Belongs to one thread, except for what it is told by the abort flag."""

    def __init__(self, loader: Loader, clock: Clock, arms: Sequence[ArmSpec], abort: AbortFlag) -> None:
        """Take the arms, plain decoding first, and the flag that stops everything."""
        self._run = BenchRun(loader, clock, arms)
        self._with_costs = any(arm.kind == "auto" for arm in arms)
        self._abort = abort

    def load(self, *, allow_rounding: bool) -> Conditions:
        """Load the models and see that every arm can be made; raises LocalspecError."""
        # Only auto decides by what passes cost.
        return self._run.load(allow_rounding=allow_rounding, with_costs=self._with_costs)

    def provenance(self, on_hash: OnHash) -> Provenance:
        """Hash the loaded files, and write down build, machine and settings; raises Cancelled."""
        return provenance(self._run.target, self._run.draft_model, self._abort, on_hash)

    def run(
        self,
        prompts: Sequence[BenchPrompt],
        samplings: Sequence[SamplingParams],
        max_tokens: int,
        accept: Accept,
        on_answer: OnAnswer,
        on_fork: OnFork,
    ) -> Iterator[Compared | Skipped]:
        """Yield every turn that all arms have answered, its forks explained; raises Cancelled when it is stopped.

        `samplings` are alike but for the temperature.
        """
        conversation: list[Turn] = []
        # Apart, since a fault in what a drafted answer leaves in the cache shows in the next turn alone.
        for event in self._run.run(prompts, samplings, max_tokens, on_answer, accept, apart=True):
            if isinstance(event, Skipped):
                yield event
                continue
            conversation = [*conversation[: event[0].turn], event]
            params = replace(samplings[0], temperature=event[0].temperature, seed=event[0].seed)
            yield Compared(event, tuple(self._forks(conversation, params, on_fork)))

    def _forks(self, conversation: Sequence[Turn], params: SamplingParams, on_fork: OnFork) -> Iterator[Fork]:
        """Yield the forks of a conversation's last turn, explained."""
        *before, (plain, *drafted) = conversation
        for answer in drafted:
            if differs(plain, answer):
                on_fork(answer)
                # Who was asked this turn as plain decoding was has said the same before.
                earlier = [(turn[0], next(one for one in turn if one.arm == answer.arm)) for turn in before]
                yield explain(self._run.target, plain, answer, params, earlier)

    def close(self) -> None:
        """Free the models; calling it twice is fine."""
        self._run.close()


def tallies(compared: Sequence[Compared]) -> list[Tally]:
    """Return the counts by temperature and arm, in the order in which they were asked; plain decoding has none."""
    keys = {(answer.temperature, answer.arm): None for one in compared for answer in one.turn if answer.arm != PLAIN}
    return [_tally(compared, temperature, arm) for temperature, arm in keys]


def outcome(compared: Sequence[Compared]) -> Outcome:
    """Return what the comparison shows as a whole."""
    kinds = {fork.kind for one in compared for fork in one.forks}
    if kinds:
        return Outcome.BUG if ForkKind.BUG in kinds else Outcome.ROUNDING
    return Outcome.EXACT if any(tally.drafted for tally in tallies(compared)) else Outcome.NOTHING


def _tally(compared: Sequence[Compared], temperature: float, arm: str) -> Tally:
    mine = [answer for one in compared for answer in one.turn if (answer.temperature, answer.arm) == (temperature, arm)]
    forks = [fork for one in compared for fork in one.forks if (fork.temperature, fork.arm) == (temperature, arm)]
    bugs = sum(fork.kind is ForkKind.BUG for fork in forks)
    return Tally(
        temperature=temperature,
        arm=arm,
        answers=len(mine),
        drafting=sum(answer.stats.drafted > 0 for answer in mine),
        tokens=sum(len(answer.tokens) if answer.fork is None else answer.fork for answer in mine),
        drafted=sum(answer.stats.drafted for answer in mine),
        accepted=sum(answer.stats.accepted for answer in mine),
        widths=tuple(sorted({width for answer in mine for width in answer.widths})),
        near_ties=len(forks) - bugs,
        bugs=bugs,
    )
