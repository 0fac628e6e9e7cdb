"""Log every decision of the controller on recorded answers: change a draft rule and see in seconds what it does.

    python tests/support/run.py decision_log                   speed-up by situation and class of answer
    python tests/support/run.py decision_log --save FILE       keep the log, before a change
    python tests/support/run.py decision_log --compare FILE    after it: answers with other decisions, and speed
    python tests/support/run.py decision_log --golden          rewrite tests/data/decisions.json
    python tests/support/run.py decision_log --time            real time of deciding, and of the host, a round

The recorded answers (tests/data/traces.jsonl.gz, temperature 0 and .7) are played in each situation below, in virtual
time, by the real engine. One controller gives all answers of a class, as in a chat.
"""

import argparse
import gzip
import hashlib
import json
import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
from curves import PUBLISHED
from replay import Cost, ReplayModel, Trace, VirtualClock, load

import drafters.draft_model
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings
from app.engine.control.draft_model_cost import ModelCost
from app.engine.control.explain import explain
from app.engine.control.policy import AdaptiveModelPolicy
from app.engine.control.shared_control import BatchingController, SharedBatch
from app.engine.conversation.session import Session
from app.engine.costs.pass_cost import QUICK_WIDTHS, VerifyCurve
from app.engine.decoding.controller import Controller, RoundPlan
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Round
from app.engine.decoding.shared_pass import Bounds, Pass
from drafters.base import Draft, Hindsight
from drafters.draft_model import DraftModel
from drafters.hybrid import Hybrid, ModelRequest
from drafters.suffix import SuffixDrafter
from models.base import LanguageModel, Logits
from models.sampling.sampler import Sampler, SamplingParams

DATA = Path(__file__).parents[2] / "data"
GOLDEN = DATA / "decisions.json"
_PLAIN_PASS = 0.05
"""Virtual seconds of a pass of one token."""
_READING = {1: 1.0, 2: 1.3, 4: 1.6, 8: 2.5, 16: 4.0, 64: 14.0}
"""Passes of the draft model, by width, over its step."""
_DIGITS = 6
"""Significant digits of the figures that are compared: the last bits differ between processors."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A machine, and what the answers are drafted with on it."""

    name: str
    curve: str
    """One of `curves.PUBLISHED`."""
    step: float | None = None
    """A step of the draft model over a plain pass; None: the suffix index alone."""
    max_siblings: int = 0
    infill: bool = False
    companions: int = 0
    """Other answers that can share passes with this one."""
    search: float = 0.0
    """What the suffix index takes for a look-up, over a plain pass."""
    believed_one: float = 1.0
    """What the controller takes a pass of one token to cost at first, over what it costs."""


SITUATIONS = (
    Situation("suffix index alone", "Xeon AMX 13B"),
    Situation("cheap draft model", "Xeon AMX 13B", step=0.1),
    Situation("dear draft model", "M5 Max 12B", step=0.3),
    Situation("jagged passes, wrong table", "CUDA 34B", step=0.15, believed_one=1.5),
    Situation("slow suffix index", "M1 Ultra", step=0.6, search=0.04),
    Situation("siblings", "2-core Granite Rapids 4B", step=0.08, max_siblings=8),
    Situation("infill", "M1 Ultra", step=0.1, infill=True),
    Situation("shared passes", "2x MI50 27B", step=0.1, companions=2),
)


class JoinableModel(ReplayModel):
    """A recorded model that reads trees, and whose passes can be shared."""

    second: Sequence[int] = ()
    """What the rows of a draft model put second, by place."""

    def can_join(self, other: LanguageModel) -> bool:
        return other is not self

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        result = super().decode(tokens, rows)
        depths = [0]
        for parent in parents:
            depths.append(depths[parent + 1] + 1)
        return result[depths] if parents else result

    def _fill(self, row: Logits, place: int, lost: bool) -> None:
        super()._fill(row, place, lost)
        # Every other time that the draft model is wrong, its second choice is right.
        if place < len(self.second) and place % 2 and row[self.second[place]] < np.log(0.01):
            row[self.second[place]] = np.log(0.3)


class SlowIndex(SuffixDrafter):
    """A suffix index whose look-ups take time."""

    def __init__(self, target: ReplayModel, clock: VirtualClock, seconds: float) -> None:
        super().__init__(target.vocab.is_end)
        self._clock, self._seconds = clock, seconds

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        self._clock.now += self._seconds
        return super().propose(context, limit)


class Log:
    """The decisions and figures of one answer."""

    def __init__(self) -> None:
        self.decisions: list[list[Any]] = []
        self.figures: list[Any] = []

    def add(self, *decision: Any) -> None:
        self.decisions.append([*decision])


class Logged:
    """A controller whose decisions are logged; to the hybrid drafter it answers as the controller inside does."""

    def __init__(self, inner: AdaptiveController, outer: Controller) -> None:
        self.inner, self.outer, self.log = inner, outer, Log()

    # --- to the loop

    @property
    def bounds(self) -> Bounds | None:
        return self.outer.bounds

    @property
    def certain(self) -> int:
        return self.outer.certain

    def begin(self) -> None:
        self.outer.begin()

    def plan(self) -> RoundPlan:
        plan = self.outer.plan()
        self.log.add("limit", plan.limit)
        return plan

    def select(self, draft: Draft, room: int) -> Draft:
        kept = self.outer.select(draft, room)
        places, shared = [place for place, _ in kept.siblings], self.bounds and self.bounds.passes
        self.log.add("select", draft.source, len(draft.tokens), len(kept.tokens), places, shared, self.certain)
        return kept

    def observe(self, round_: Round) -> None:
        self.outer.observe(round_)
        self.log.add("next try", self.inner.policy.rounds_to_next_probe())
        self.log.figures.append(self.inner.state.rate)

    # --- to the hybrid drafter

    @property
    def policy(self) -> "Logged":
        return self

    def worth(self, draft: Draft) -> float:
        worth = self.inner.policy.worth(draft)
        self.log.figures.append(worth)
        return worth

    def request(self, free: Draft, unread: int, limit: int, *, skipped: int = 0) -> ModelRequest:
        request = self.inner.policy.request(free, unread, limit, skipped=skipped)
        self.log.add("request", unread, skipped, request.ask.value, request.length, request.window)
        return request

    def requested(self, request: ModelRequest) -> None:
        self.inner.requested(request)

    def read(self) -> None:
        self.inner.read()

    def stepped(self) -> None:
        self.inner.stepped()

    def learn(self, source: str, hindsight: Hindsight) -> None:
        self.log.add("learn", source, len(hindsight))
        self.inner.learn(source, hindsight)

    def goes_on(self, source: str, confidence: tuple[float, ...]) -> bool:
        goes_on = self.inner.policy.goes_on(source, confidence)
        self.log.add("step", source, len(confidence), goes_on)
        return goes_on

    def explained(self) -> dict[str, Any]:
        return asdict(explain(self.inner))


def new_controller(curve: VerifyCurve, model: ModelCost | None, situation: Situation) -> AdaptiveController:
    settings = AnswerSettings(31, max_siblings=situation.max_siblings, infill=situation.infill)
    return AdaptiveController(curve, settings, model)


_DECIDING = {
    AdaptiveController: ("begin", "plan", "select", "observe", "requested", "learn", "read", "stepped"),
    AdaptiveModelPolicy: ("worth", "request", "goes_on"),
    BatchingController: ("begin", "plan", "select", "observe"),
}
"""The methods that the loop and the hybrid drafter call, by class: their time is that of deciding."""

# ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """An answer, and how it was drafted."""

    key: str
    kind: str
    rounds: int
    speedup: float
    """Over plain decoding, in virtual time; that of others in shared passes is not counted."""
    decisions: list[list[Any]]
    figures: list[Any]

    def hashes(self) -> list[str]:
        return [_hash(self.decisions), _hash(self.figures)]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]


def rounded(value: Any) -> Any:
    """Return a value of JSON with the digits that are compared."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value


@cache
def traces() -> tuple[Trace, ...]:
    found = [trace for temperature in (0.0, 0.7) for trace in load(DATA / "traces.jsonl.gz", temperature)]
    return tuple(sorted(found, key=lambda trace: trace.kind))


def logged_answers(
    situations: Sequence[Situation] = SITUATIONS, kinds: Container[str] | None = None
) -> Iterator[LoggedAnswer]:
    """Play the recorded answers of some classes, or all, in some situations, or all."""
    share = drafters.draft_model.share
    # The last bits of an exponential differ between processors; the recorded shares have three digits.
    with patch.object(drafters.draft_model, "share", lambda row, token: round(share(row, token), 5)):
        for situation in situations:
            yield from _Chat(situation).answers(kinds)


class _Chat:
    """All answers of a situation."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._cost = _cost_of(VerifyCurve(PUBLISHED[situation.curve]))
        self._draft_cost = _cost_of(VerifyCurve(_READING), situation.step or 1.0)
        self._numbers: dict[str, int] = {}

    def answers(self, kinds: Container[str] | None) -> Iterator[LoggedAnswer]:
        kind, controller = "", self._controller()
        for trace in traces():
            if kinds is not None and trace.kind not in kinds:
                continue
            controller = controller if trace.kind == kind else self._controller()
            kind = trace.kind
            yield self._answer(trace, controller)

    def _controller(self) -> AdaptiveController:
        measured = {width: self._cost(width, 0) for width in QUICK_WIDTHS}
        measured[1] *= self._situation.believed_one
        draft = VerifyCurve({width: self._draft_cost(width, 0) for width in (1, 2, 4, 16)})
        model = None if self._situation.step is None else ModelCost("model:draft", draft)
        return new_controller(VerifyCurve(measured), model, self._situation)

    def _answer(self, trace: Trace, inner: AdaptiveController) -> LoggedAnswer:
        clock = VirtualClock()
        target = JoinableModel("target", trace, self._cost, clock)
        logged = Logged(inner, self._outer(inner, target, trace, clock))
        session = Session(target, self._drafter(trace, target, clock, logged), clock)
        ending, sampler = Ending(target.vocab, budget=len(trace.answer)), Sampler(SamplingParams(temperature=0))
        rounds = []
        for event in session.answer(trace.prompt, sampler, ending, logged):
            if isinstance(event, Pass):
                self._share(event, clock)
            elif isinstance(event, Round):
                rounds.append(event)
        assert [token for round_ in rounds for token in round_.emitted] == list(trace.answer)
        number = self._numbers[trace.kind] = self._numbers.get(trace.kind, 0) + 1
        plain = sum(self._cost(1, len(trace.prompt) - 1 + place) for place in range(len(trace.answer)))
        return LoggedAnswer(
            f"{self._situation.name}, {trace.kind} {number}",
            trace.kind,
            len(rounds),
            rounded(plain / session.stats.seconds),
            logged.log.decisions,
            rounded([*logged.log.figures, logged.explained()]),
        )

    def _outer(self, inner: AdaptiveController, target: JoinableModel, trace: Trace, clock: VirtualClock) -> Controller:
        if not self._situation.companions:
            return inner
        batch = SharedBatch(VerifyCurve({width: self._cost(width, 0) for width in QUICK_WIDTHS}), 8)
        for _ in range(self._situation.companions):
            batch.enter(JoinableModel("other", trace, self._cost, clock), 1)
        return BatchingController(inner, batch, 1, target, 8)

    def _drafter(self, trace: Trace, target: JoinableModel, clock: VirtualClock, logged: Logged) -> Hybrid:
        index = SlowIndex(target, clock, self._situation.search * _PLAIN_PASS)
        if self._situation.step is None:
            return Hybrid([index], None, logged)
        draft = JoinableModel.draft(trace, self._draft_cost, clock)
        assert isinstance(draft, JoinableModel)
        model = DraftModel(draft, target.vocab)
        draft.skipped = lambda: model.skipped
        if self._situation.max_siblings:
            draft.second = (0,) * (len(trace.prompt) - 1) + trace.answer
        return Hybrid([index], model, logged)

    def _share(self, wanted: Pass, clock: VirtualClock) -> None:
        """Do a pass together with those of all companions, which take a token each."""
        others = self._situation.companions
        before = clock.now
        rows = wanted.target.decode(wanted.tokens, 1)
        clock.now = before + self._cost(1 + others, 0)
        wanted.done(rows, others, clock.now - before)


def _cost_of(curve: VerifyCurve, step: float = 1.0) -> Cost:
    table = [_PLAIN_PASS * step * curve.seconds(width) for width in range(1, 129)]
    return lambda width, _: table[width - 1]


# --- the command ------------------------------------------------------------------------------------------------------


def golden(answers: Sequence[LoggedAnswer]) -> dict[str, list[str]]:
    """Return what a test compares: two hashes an answer, of its decisions and of its figures."""
    return {answer.key: answer.hashes() for answer in answers}


def save(answers: Sequence[LoggedAnswer], path: Path) -> None:
    with gzip.open(path, "wt") as file:
        json.dump([asdict(answer) for answer in answers], file)


def read(path: Path) -> list[LoggedAnswer]:
    with gzip.open(path, "rt") as file:
        return [LoggedAnswer(**record) for record in json.load(file)]


def differences(before: Sequence[LoggedAnswer], after: Sequence[LoggedAnswer]) -> Iterator[str]:
    """Yield a line for each answer whose decisions or figures are others now."""
    then = {answer.key: answer for answer in before}
    for answer in after:
        old = then.get(answer.key)
        if old is None or old.hashes() == answer.hashes():
            continue
        first = _first_difference(old.decisions, answer.decisions)
        if first is None:
            yield f"{answer.key}: the same decisions, other figures"
        else:
            other = sum(one != two for one, two in zip(old.decisions, answer.decisions, strict=False))
            other += abs(len(old.decisions) - len(answer.decisions))
            yield f"{answer.key}: speed-up {old.speedup:.3f} -> {answer.speedup:.3f}, {other} decisions differ; {first}"


def _first_difference(before: Sequence[list[Any]], after: Sequence[list[Any]]) -> str | None:
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            return f"first at {place}: {old} -> {new}"
    return None if len(before) == len(after) else f"first at {min(len(before), len(after))}: one answer goes on"


def table(answers: Sequence[LoggedAnswer], before: Sequence[LoggedAnswer] = ()) -> Iterator[str]:
    """Yield the mean speed-up by situation and class, with that of the log before."""
    then = {answer.key: answer.speedup for answer in before}
    for situation in SITUATIONS:
        mine = [answer for answer in answers if answer.key.startswith(f"{situation.name}, ")]
        kinds = dict.fromkeys(answer.kind for answer in mine)
        yield situation.name
        for kind in kinds:
            now = [answer for answer in mine if answer.kind == kind]
            old = [then[answer.key] for answer in now if answer.key in then]
            was = f"{sum(old) / len(old):.3f} -> " if old else ""
            yield f"  {kind:10} {was}{sum(answer.speedup for answer in now) / len(now):.3f}"


class Stopwatch:
    """Real time in calls, those inside others not counted twice."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timing(*arguments: Any, **options: Any) -> Any:
            if self._depth:
                return call(*arguments, **options)
            self._depth, started = 1, time.thread_time()
            try:
                return call(*arguments, **options)
            finally:
                self.seconds += time.thread_time() - started
                self._depth = 0

        return timing


def timing(situation: Situation) -> tuple[float, float]:
    """Return the real microseconds a round of deciding, and of all but the models."""
    deciding, models, rounds = Stopwatch(), Stopwatch(), 0
    kept = [(kind, name, getattr(kind, name)) for kind, names in _DECIDING.items() for name in names]
    decode, logged = JoinableModel.decode, (Logged.observe, Logged.select)
    for kind, name, call in kept:
        setattr(kind, name, deciding.timed(call))
    JoinableModel.decode = models.timed(decode)  # type: ignore[method-assign]
    # The log's own questions are no part of deciding.
    Logged.observe = lambda self, round_: self.outer.observe(round_)  # type: ignore[method-assign]
    Logged.select = lambda self, draft, room: self.outer.select(draft, room)  # type: ignore[method-assign]
    started = time.thread_time()
    try:
        rounds = sum(answer.rounds for answer in logged_answers([situation]))
    finally:
        for kind, name, call in kept:
            setattr(kind, name, call)
        JoinableModel.decode, (Logged.observe, Logged.select) = decode, logged  # type: ignore[method-assign]
    host = time.thread_time() - started - models.seconds
    return 1e6 * deciding.seconds / rounds, 1e6 * host / rounds


def _time(repeats: int) -> Iterator[str]:
    yield f"{'microseconds a round, median of ' + str(repeats):40} deciding   host"
    for situation in SITUATIONS:
        found = [timing(situation) for _ in range(repeats)]
        deciding, host = (median(each) for each in zip(*found, strict=True))
        yield f"{situation.name:40} {deciding:8.1f} {host:6.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("--time", type=int, nargs="?", const=3, metavar="REPEATS")
    wanted = parser.parse_args()
    if wanted.time:
        print(*_time(wanted.time), sep="\n")
        return
    answers = list(logged_answers())
    before = read(wanted.compare) if wanted.compare else []
    print(*table(answers, before), sep="\n")
    if wanted.compare:
        found = list(differences(before, answers))
        print(*found, f"{len(found)} of {len(answers)} answers differ.", sep="\n")
    if wanted.save:
        save(answers, wanted.save)
    if wanted.golden:
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in golden(answers).items())
        GOLDEN.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
