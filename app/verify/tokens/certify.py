"""Token check of `localspec verify`: drafted answers against plain ones, token by token, with every fork explained."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from app.bench.measuring.arm_names import ArmSpec
from app.bench.measuring.arms import PLAIN, ArmAnswer, BenchPrompt, OnAnswer, Skipped, Turn
from app.bench.measuring.benchmark import BenchConditions, BenchRun
from app.engine.costs.provenance import OnHash, Provenance, provenance
from app.engine.decoding.round import Clock
from app.engine.runtime.loader import Loader
from app.verify.tokens.fork import Fork, ForkKind, differs, explain
from models.abort import AbortFlag
from models.sampling.accept import Accept
from models.sampling.sampler import SamplingParams

OnFork = Callable[[ArmAnswer], None]
"""Receives the answer that differs from the plain one, before its fork is explained."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Turn that all arms have answered, with its forks."""

    turn: Turn
    forks: tuple[Fork, ...]


class CertificateOutcome(StrEnum):
    """Outcome of a whole comparison."""

    EXACT = "exact"
    """Every token equals plain decoding's."""
    ROUNDING = "rounding"
    """Forks, all of them near-ties."""
    BUG = "bug"
    """A fork that rounding does not explain."""
    NOTHING = "nothing"
    """No token was drafted, so nothing was checked."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of one arm at one temperature."""

    temperature: float
    arm: str
    answers: int
    drafting: int
    """Answers with a draft; answers without one are plain decoding."""
    tokens: int
    """Tokens compared: of an answer that forks, those before the fork."""
    drafted: int
    accepted: int
    widths: tuple[int, ...]
    """Widths of its passes over the target, each once, ascending."""
    near_ties: int
    bugs: int


class Certification:
    """Comparison of arms on loaded models. Belongs to one thread, except for the abort flag."""

    def __init__(
        self, loader: Loader, clock: Clock, arms: Sequence[ArmSpec], abort: AbortFlag, *, every_method: bool = False
    ) -> None:
        """Take the arms, plain decoding first, and the flag that stops everything; see `BenchRun` for the last."""
        self._run = BenchRun(loader, clock, arms, every_method=every_method)
        self._with_costs = any(arm.kind == "auto" for arm in arms)
        self._abort = abort

    def load(self, *, allow_rounding: bool) -> BenchConditions:
        """Load the models and check that every arm can be made; raises LocalspecError."""
        # Only auto uses pass costs.
        return self._run.load(allow_rounding=allow_rounding, with_costs=self._with_costs)

    def provenance(self, on_hash: OnHash) -> Provenance:
        """Return the provenance, with hashes of the loaded files; raises Cancelled."""
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
        # Apart, since a wrong cache after a drafted answer shows only in the next turn.
        for event in self._run.run(prompts, samplings, max_tokens, on_answer, accept, apart=True):
            if isinstance(event, Skipped):
                yield event
                continue
            conversation = [*conversation[: event[0].turn], event]
            params = replace(samplings[0], temperature=event[0].temperature, seed=event[0].seed)
            yield Compared(event, tuple(self._forks(conversation, params, on_fork)))

    def _forks(self, conversation: Sequence[Turn], params: SamplingParams, on_fork: OnFork) -> Iterator[Fork]:
        """Yield the forks of a conversation's last turn, with explanations."""
        *before, (plain, *drafted) = conversation
        for answer in drafted:
            if differs(plain, answer):
                on_fork(answer)
                # An arm whose prompt equals plain decoding's has answered equally before.
                earlier = [(turn[0], next(one for one in turn if one.arm == answer.arm)) for turn in before]
                yield explain(self._run.target, plain, answer, params, earlier)

    def close(self) -> None:
        """Free the models; calling it twice is fine."""
        self._run.close()


def tallies(compared: Sequence[Compared]) -> list[Tally]:
    """Return the counts by temperature and arm, in the order of the run, without plain decoding."""
    keys = {(answer.temperature, answer.arm): None for one in compared for answer in one.turn if answer.arm != PLAIN}
    return [_tally(compared, temperature, arm) for temperature, arm in keys]


def outcome(compared: Sequence[Compared]) -> CertificateOutcome:
    """Return the outcome of the whole comparison."""
    kinds = {fork.kind for one in compared for fork in one.forks}
    if kinds:
        return CertificateOutcome.BUG if ForkKind.BUG in kinds else CertificateOutcome.ROUNDING
    return CertificateOutcome.EXACT if any(tally.drafted for tally in tallies(compared)) else CertificateOutcome.NOTHING


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
