"""Choice between two draft models, played back: python tests/support/run.py model_choice.

The answers of tests/data/text_traces.jsonl.gz, which a 1.5B gave, are played in virtual time with what two draft models
drafted for them: a 0.5B in the target's own tokens (text_traces_model.jsonl.gz, written by `text_drafts --again`), and
the starter as text. Printed is the speed-up over plain decoding by class, of each alone and of both with the choice of
the controller, for pass costs of several machines and several prices of a step. One controller gives all answers of a
class; with --mixed it gives all answers, the classes in turns.

With --singles it is compared with single methods as `localspec bench` runs them, with drafts of three tokens in every
round: suffix copies, the 0.5B, the starter. Printed is each one's speed-up, and that of the controller with all of them
over the best of them. With --pauses the draft models read each answer in the pause after it. With --times N all answers
are given N times, which shows what is learnt; copies come from the same answer alone.
"""

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from statistics import geometric_mean

from replay import ReplayModel, Trace, VirtualClock

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings
from app.engine.control.draft_model_cost import ModelCost
from app.engine.conversation.drafting import Drafting
from app.engine.conversation.pause_reading import read_in_pause
from app.engine.conversation.session import Session
from app.engine.costs.pass_cost import QUICK_WIDTHS, VerifyCurve
from app.engine.decoding.controller import Controller, FixedLength
from app.engine.decoding.ending import Ending
from drafters.alternatives import one_of
from drafters.base import Drafter
from drafters.draft_model import DraftModel
from drafters.hybrid import Hybrid
from drafters.suffix import SuffixDrafter
from models.sampling.sampler import Sampler, SamplingParams

_DATA = Path(__file__).parents[2] / "data"
MODEL, TEXT = "model:0.5B", "model:starter"
"""Sources of the two; the starter's recorded drafts are tokens of the target already."""
CURVES = {
    "Xeon, AVX-512": {1: 1.0, 2: 0.95, 4: 1.05, 8: 1.85, 16: 3.2, 32: 5.6},
    "EPYC, AVX2": {1: 1.0, 2: 1.33, 4: 1.82, 8: 2.78, 16: 5.2, 32: 10.0},
}
"""Time of a pass over that of one token, measured with a 1.5B in Q4_K_M."""
STEPS = ((0.4, 0.2), (0.3, 0.15), (0.25, 0.2), (0.3, 0.3))
"""Time of a step of the 0.5B and of the starter over that of a plain token."""
AGREED = {MODEL: 0.76, TEXT: 0.66}
"""Share of places where they agreed with the target in the look before the first answer (`agreement_probe`)."""
_LENGTH = 3
"""Tokens of each draft of a single method."""
_READING = {1: 1.0, 4: 1.0, 64: 12.0}
"""A draft model's passes over its step."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A machine, and the prices of both draft models on it."""

    curve: str
    steps: tuple[float, float]


SITUATIONS = tuple(Situation(curve, steps) for curve in CURVES for steps in STEPS)
Pair = tuple[Trace, Trace]


@cache
def pairs(temperature: float) -> tuple[Pair, ...]:
    """Return the recorded answers, each with what the 0.5B and what the starter drafted, in one numbering of tokens."""
    first, second = (_records(f"text_traces{name}.jsonl.gz", temperature) for name in ("_model", ""))
    return tuple(_pair(first[key], second[key]) for key in second)


def _records(name: str, temperature: float) -> dict[str, dict]:
    lines = gzip.decompress((_DATA / name).read_bytes()).splitlines()
    return {record["id"]: record for record in map(json.loads, lines) if record["t"] == temperature}


def _pair(first: dict, second: dict) -> Pair:
    assert (first["prompt"], first["answer"]) == (second["prompt"], second["answer"])
    known: dict[int, int] = {}

    def numbered(tokens: Sequence[int]) -> tuple[int, ...]:
        return tuple(known.setdefault(token, len(known)) for token in tokens)

    prompt, answer = numbered(first["prompt"]), numbered(first["answer"])
    drafts = [numbered(record["guess"]) for record in (first, second)]
    one, other = (
        Trace(record["id"], record["class"], prompt, answer, draft, tuple(record["sure"]), len(known))
        for record, draft in zip((first, second), drafts, strict=True)
    )
    return one, other


class Player:
    """One controller on one machine, with one of the draft models or both."""

    def __init__(self, situation: Situation, names: Sequence[str], *, pauses: bool = False) -> None:
        steps = dict(zip((MODEL, TEXT), situation.steps, strict=True))
        self._curve = VerifyCurve(CURVES[situation.curve])
        self._reading = {name: VerifyCurve({w: steps[name] * r for w, r in _READING.items()}) for name in names}
        costs = [ModelCost(name, VerifyCurve(curve.measured)) for name, curve in self._reading.items()]
        measured = {width: self._curve.seconds(width) for width in QUICK_WIDTHS}
        self._controller = AdaptiveController(VerifyCurve(measured), AnswerSettings(31), *costs)
        for name in names:
            self._controller.acceptance.expect(name, AGREED[name])
        self._pauses = pauses

    def speedup(self, pair: Pair) -> float:
        """Give an answer; return its speed over plain decoding, the prompt's reading by the target left out."""
        recorded = _Answer(self._curve, pair[0])
        drafters = [
            recorded.drafter(name, one, self._reading[name])
            for name, one in zip((MODEL, TEXT), pair, strict=True)
            if name in self._reading
        ]
        model = one_of(drafters)
        hybrid = Hybrid([recorded.copies], model, self._controller)
        speedup = recorded.speedup(hybrid, self._controller)
        if self._pauses:
            read_in_pause(recorded.session, Drafting(hybrid, self._controller, model=model))
        return speedup

    def single(self, pair: Pair) -> float:
        """Return the speed of an answer with the draft model alone, or copies alone where there is none."""
        recorded = _Answer(self._curve, pair[0])
        drafters: list[Drafter] = [
            recorded.drafter(name, pair[(MODEL, TEXT).index(name)], reading) for name, reading in self._reading.items()
        ]
        return recorded.speedup(*drafters or [recorded.copies], FixedLength(_LENGTH))


class _Answer:
    """A target that says one recorded answer, and its drafters, in virtual time."""

    def __init__(self, curve: VerifyCurve, trace: Trace) -> None:
        self._curve, self._trace, self._clock = curve, trace, VirtualClock()
        target = ReplayModel("target", trace, lambda width, _: curve.seconds(width), self._clock)
        self.copies = SuffixDrafter(target.vocab.is_end)
        self.session = Session(target, self.copies, self._clock)

    def drafter(self, name: str, trace: Trace, reading: VerifyCurve) -> DraftModel:
        """Return a draft model; `reading` has the seconds of its passes."""
        model = ReplayModel.draft(trace, lambda width, _: reading.seconds(width), self._clock)
        model.name = name.removeprefix("model:")
        drafter = DraftModel(model, self.session.target.vocab)
        model.skipped = lambda: drafter.skipped
        return drafter

    def speedup(self, drafter: Drafter, controller: Controller) -> float:
        """Give the answer; return its speed over plain decoding."""
        trace, session = self._trace, self.session
        session.drafter = drafter
        ending, sampler = Ending(session.target.vocab, budget=len(trace.answer)), Sampler(SamplingParams(temperature=0))
        for _ in session.answer(trace.prompt, sampler, ending, controller):
            pass
        assert session.tokens[len(trace.prompt) :] == list(trace.answer)
        return len(trace.answer) * self._curve.seconds(1) / session.stats.seconds


def singles(situation: Situation, names: Sequence[str], answers: Sequence[Pair]) -> dict[str, float]:
    """Return the speed-up of each class of answers with one draft model, or copies where `names` is empty."""
    found: dict[str, list[float]] = defaultdict(list)
    for pair in answers:
        found[pair[0].kind].append(Player(situation, names).single(pair))
    return _means(found)


def by_class(
    situation: Situation, names: Sequence[str], answers: Sequence[Pair], *, mixed: bool, pauses: bool = False
) -> dict[str, float]:
    """Return the speed-up of each class of answers."""
    found: dict[str, list[float]] = defaultdict(list)
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in answers:
        groups[pair[0].kind].append(pair)
    together = Player(situation, names, pauses=pauses)
    for pair in _in_turns(groups) if mixed else answers:
        kind = pair[0].kind
        if not mixed and kind not in found:
            together = Player(situation, names, pauses=pauses)
        found[kind].append(together.speedup(pair))
    return _means(found)


def _means(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {kind: len(each) / sum(1 / one for one in each) for kind, each in sorted(found.items())}


def _in_turns(groups: Mapping[str, Sequence[Pair]]) -> Iterator[Pair]:
    for row in zip_longest(*groups.values()):
        yield from (pair for pair in row if pair is not None)


def _print_choice(situation: Situation, temperature: float, asked: argparse.Namespace) -> None:
    for words, names in (("0.5B", [MODEL]), ("starter", [TEXT]), ("both", [MODEL, TEXT])):
        found = by_class(situation, names, _answers(temperature, asked), mixed=asked.mixed, pauses=asked.pauses)
        print(f"  {temperature:g} {words:10} {_words(found)}")


def _print_singles(situation: Situation, temperature: float, asked: argparse.Namespace) -> None:
    methods = (("suffix:3", []), ("0.5B:3", [MODEL]), ("starter:3", [TEXT]))
    found = {words: singles(situation, names, pairs(temperature)) for words, names in methods}
    for words, each in found.items():
        print(f"  {temperature:g} {words:10} {_words(each)}")
    both, answers = [MODEL, TEXT], _answers(temperature, asked)
    auto = by_class(situation, both, answers, mixed=asked.mixed, pauses=asked.pauses)
    best = {kind: max(1.0, *(each[kind] for each in found.values())) for kind in auto}
    print(f"  {temperature:g} auto       {_words(auto)}")
    print(f"  {temperature:g} over best  {_words({kind: auto[kind] / best[kind] for kind in auto})}")


def _answers(temperature: float, asked: argparse.Namespace) -> Sequence[Pair]:
    return pairs(temperature) * asked.times


def _words(found: Mapping[str, float]) -> str:
    shown = ", ".join(f"{kind} {speedup:.2f}" for kind, speedup in found.items())
    return f"all {geometric_mean(found.values()):.3f}: {shown}"


def main() -> None:
    """Print the speed-ups of each situation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--singles", action="store_true")
    parser.add_argument("--pauses", action="store_true")
    parser.add_argument("--times", type=int, default=1)
    asked = parser.parse_args()
    for situation in SITUATIONS:
        print(f"{situation.curve}, a step of the 0.5B {situation.steps[0]}, of the starter {situation.steps[1]}")
        for temperature in (0.0, 0.7):
            (_print_singles if asked.singles else _print_choice)(situation, temperature, asked)


if __name__ == "__main__":
    main()
