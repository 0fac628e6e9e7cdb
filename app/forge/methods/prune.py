"""A draft model that is the target with blocks left out: the set of blocks is searched by measured agreement and cost.

Source: Zhang et al. 2023, "Draft & Verify: Lossless Large Language Model Acceleration via Self-Speculative Decoding",
arXiv 2309.08168. There blocks are skipped within the target's pass; here the rest of them is a file of its own.
"""

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from app.forge.answering.answers import CONTEXT, TOGETHER, Answer
from app.forge.answering.collecting import collect
from app.forge.answering.parts import Parts
from app.forge.estimate import answered
from app.forge.files.pruned_file import block_bytes, block_count, check_prunable, write_pruned
from app.forge.methods.base import Job, Made, Method, Plan, shares
from app.forge.pruning.agreement import LONGEST, Agreement, AgreementMeter
from app.forge.pruning.cost import PROMPT_PASS, Expected, expected, pass_ratios, token_seconds
from app.forge.pruning.search import Blocks, Candidate, search
from app.forge.request import ForgeRequest
from models.gguf.bytes_read import bytes_a_token
from models.gguf.header import read_model
from models.system.whole_file import write_whole

_ANSWERING, _SEARCHING = 0.2, 0.5
"""Shares of the minutes for the target's answers and for the search; the rest is for the trial."""
_ENOUGH = 12_000
"""Tokens of answers that suffice."""
_LEAST = 24
"""Answers without which no set can be judged: half of them for the search, half to measure the best sets again."""
_MEASUREMENTS = 100
"""Sets that the time of the search should suffice for."""
_FEWEST, _MOST = 256, 4096
"""Places of a measurement."""
_TIMED = 3
"""Sets of which a file is written and a step is timed."""


@dataclass(frozen=True, slots=True)
class TimedSet:
    """A set of blocks whose file was written and timed."""

    left_out: tuple[int, ...]
    right: float
    """Share of right tokens on answers that the search did not use, 0 to 1."""
    accepted: tuple[float, ...]
    """Share of drafts that are right at least so far there, by position."""
    step: float
    """Time of a draft token over that of a token of the target."""
    speed_up: float
    """Expected, over plain decoding."""
    length: int
    """Draft length with that speed."""

    @property
    def words(self) -> str:
        """It in a line."""
        return (
            f"without {len(self.left_out)} ({', '.join(map(str, self.left_out))}): {shares([self.right])} right, "
            f"a step {self.step:.2f} of a token, {self.speed_up:.2f}x expected with drafts of {self.length}"
        )


@dataclass(frozen=True, slots=True)
class MadePruned(Made):
    """What a pruned model was made from."""

    blocks: int
    """Blocks of the target."""
    left_out: tuple[int, ...]
    measured: int
    """Sets whose agreement was measured."""
    places: int
    """Places of one measurement of the search."""
    searching_seconds: float
    timed: tuple[TimedSet, ...]
    """Sets that were timed, the best one first: that is the drafter."""

    @property
    def lines(self) -> list[str]:
        """Lines of the report."""
        minutes = self.searching_seconds / 60
        return [
            f"{self.source}; {self.measured} sets of its {self.blocks} blocks were measured ({minutes:.0f} min).",
            *(f"  {each.words}" for each in self.timed),
        ]


class Prune:
    """The method."""

    minutes = 20.0
    flags: frozenset[str] = frozenset()

    def libraries(self, *, train: bool) -> tuple[str, ...]:  # noqa: ARG002
        """Return the modules that have to be installed."""
        return ("gguf",)

    def check(self, target: Path, draft: str | None) -> None:  # noqa: ARG002
        """Raise PairError for a target whose blocks can't be left out."""
        check_prunable(target)

    def plan(self, request: ForgeRequest) -> Plan:
        """Return what it will take."""
        facts, header = request.facts, read_model(request.target)
        share = block_bytes(header) / max(1.0, bytes_a_token(header))
        answers = min(_ENOUGH, answered(request, request.minutes * 60 * _ANSWERING))
        return Plan(
            f"A draft model that is {request.target.name} with some of its {facts.blocks} blocks left out.",
            f"About {answers:,} tokens of answers, on which sets of blocks are compared. A draft token saves "
            f"{share:.1%} of a token's time for each block left out, and is wrong more often. On a processor that was "
            "at most as fast as plain decoding with 1.5B; a smaller model of the family is better where there is one.",
            answers * 120 + 2 * facts.size,
            max(facts.size + TOGETHER * CONTEXT * facts.width * 64, 2 * facts.size),
        )

    def make(self, job: Job) -> MadePruned:
        """Write the best set's file."""
        parts = collect(job, job.request.minutes * 60 * _ANSWERING, enough=_ENOUGH, least=_LEAST)
        return _Pruner(job, parts).make()


class _Pruner:
    """Search for the set of one target. What was measured is kept in the work folder."""

    def __init__(self, job: Job, parts: Parts) -> None:
        self._job = job
        self._parts = parts
        self._file = job.work.folder / "agreement.json"
        self._before = job.work.progress.trained
        self._started = time.monotonic()
        self._known: dict[str, Agreement] = {}
        self._steps: dict[str, float] = {}
        """Time of a draft token over that of a token of the target, by set."""
        self._ratios: dict[int, float] = {}
        """Time of a pass of the target over that of one token, by width."""
        self._sample: list[Answer] = []

    def make(self) -> MadePruned:
        """Write the best set's file; raises LocalspecError, OSError, and Cancelled."""
        header = read_model(self._job.request.target)
        blocks = block_count(header)
        count = self._read_stored()
        if PROMPT_PASS not in self._ratios:
            self._job.tell("timing the target's passes", 0, 1)
            self._ratios = pass_ratios(self._job)
        meter = AgreementMeter(self._job, blocks)
        try:
            self._choose_sample(meter, count)
            search(blocks, lambda left_out: self._measure(meter, left_out), self._share)
            chosen = self._promising(block_bytes(header) / bytes_a_token(header))
            rest = self._parts.answers[len(self._sample) :] or self._parts.answers
            unseen = [self._parts.read(stored) for stored in rest[: max(8, len(self._sample))]]
            agreements = {each.left_out: meter.measure(unseen, each.left_out) for each in chosen}
        finally:
            meter.close()
            self._note()
        timed = self._timed(agreements)
        return MadePruned(
            answers=len(self._parts.answers),
            tokens=self._parts.tokens,
            answering_seconds=self._job.work.progress.collected,
            blocks=blocks,
            left_out=timed[0].left_out,
            measured=len(self._known),
            places=sum(len(answer.tokens) - answer.asked + 1 for answer in self._sample),
            searching_seconds=self._seconds(),
            timed=timed,
        )

    def _choose_sample(self, meter: AgreementMeter, count: int) -> None:
        """Take so many answers that the time suffices for many sets, or the `count` that earlier measurements used."""
        if not count:
            answer = self._parts.read(self._parts.answers[0])
            started = time.monotonic()
            places = meter.measure([answer], ()).places
            rate = places / max(1e-9, time.monotonic() - started)
            wanted = min(_MOST, max(_FEWEST, rate * self._wanted / _MEASUREMENTS))
            while count < len(self._parts.answers) and wanted > 0:
                stored = self._parts.answers[count]
                wanted -= stored.length - stored.asked + 1
                count += 1
        self._sample = [self._parts.read(stored) for stored in self._parts.answers[:count]]

    def _measure(self, meter: AgreementMeter, left_out: Blocks) -> Agreement:
        name = _name(left_out)
        if name not in self._known:
            what = f"leaving out {len(left_out)} of {meter.blocks} blocks, {len(self._known)} sets measured"
            self._job.tell(what, self._seconds(), self._wanted)
            self._known[name] = meter.measure(self._sample, left_out)
            self._store()
            self._note()
        return self._known[name]

    def _candidates(self) -> list[Candidate]:
        """Return all sets that were measured: a search whose time an earlier run has spent finds none of them again."""
        return [Candidate(frozenset(map(int, name.split(","))), each) for name, each in self._known.items()]

    def _promising(self, block: float) -> list[Candidate]:
        """Return the sets that are expected to be fastest, where each block saves a share `block` of a step."""

        def speed_up(candidate: Candidate) -> float:
            return self._expected(candidate.agreement, 1 - block * len(candidate.left_out)).speed_up

        return sorted(self._candidates(), key=speed_up, reverse=True)[:_TIMED]

    def _expected(self, agreement: Agreement, step: float) -> Expected:
        asked = sum(answer.asked for answer in self._parts.answers)
        prompt = asked / max(1, self._parts.tokens - asked)
        return expected(agreement.lengths, step, self._ratios, prompt)

    def _store(self) -> None:
        sets = {each: asdict(agreement) for each, agreement in self._known.items()}
        times = {"threads": self._job.request.threads, "steps": self._steps, "ratios": self._ratios}
        write_whole(self._file, json.dumps({"answers": len(self._sample), "sets": sets, "times": times}))

    def _timed(self, agreements: dict[Blocks, Agreement]) -> tuple[TimedSet, ...]:
        """Write and time each set's file; return them with the best first, whose file is left."""
        found = [
            _timed_set(left_out, agreement, step, self._expected(agreement, step))
            for left_out, agreement in agreements.items()
            for step in [self._step(left_out)]
        ]
        found.sort(key=lambda each: -each.speed_up)
        self._job.check()
        write_pruned(self._job.work.drafter, self._job.request.target, found[0].left_out)
        return tuple(found)

    def _step(self, left_out: Blocks) -> float:
        """Return the time of a set's draft token over that of a token of the target; an earlier run's is used again.

        A run that goes on then chooses the same set, and its trial goes on too.
        """
        name, target, drafter = _name(left_out), self._job.request.target, self._job.work.drafter
        if name not in self._steps:
            self._job.check()
            self._job.tell(f"timing a step without {len(left_out)} blocks", 0, 1)
            write_pruned(drafter, target, left_out)
            whole, short = token_seconds(self._job, target, drafter, both_draft=False)
            self._steps[name] = short / whole
            self._store()
        return self._steps[name]

    @property
    def _wanted(self) -> float:
        """Seconds for the search."""
        return self._job.request.minutes * 60 * _SEARCHING

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._started

    def _share(self) -> float:
        return self._seconds() / self._wanted

    def _note(self) -> None:
        self._job.work.note(replace(self._job.work.progress, trained=self._seconds()))

    def _read_stored(self) -> int:
        """Read what an earlier run measured; return on how many answers, 0 where the file is missing or damaged."""
        try:
            record = json.loads(self._file.read_text(encoding="utf-8"))
            self._known = {
                name: Agreement(each["places"], each["right"], tuple(each["lengths"]))
                for name, each in record["sets"].items()
            }
            times = record.get("times", {})
            # With other threads, a step and a pass take another time.
            if times.get("threads") == self._job.request.threads:
                self._steps = {name: float(step) for name, step in times["steps"].items()}
                self._ratios = {int(width): float(ratio) for width, ratio in times["ratios"].items()}
            count = int(record["answers"])
            if count > len(self._parts.answers):
                raise ValueError("measured on answers that are gone")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._known, self._steps, self._ratios = {}, {}, {}
            return 0
        return count


def _name(left_out: Blocks) -> str:
    return ",".join(map(str, sorted(left_out)))


def _timed_set(left_out: Blocks, agreement: Agreement, step: float, outcome: Expected) -> TimedSet:
    lengths = (0.0, *agreement.lengths)
    accepted = tuple(lengths[place] - lengths[place - 1] for place in range(1, LONGEST + 1))
    return TimedSet(tuple(sorted(left_out)), agreement.right, accepted, step, outcome.speed_up, outcome.length)


METHOD: Method = Prune()
