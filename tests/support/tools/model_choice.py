"""Choice between two draft models, played back: python tests/support/run.py model_choice.

The answers of tests/data/text_traces.jsonl.gz, which a 1.5B gave, are played in virtual time with what two draft models
drafted for them: a 0.5B in the target's own tokens (text_traces_model.jsonl.gz, written by `text_drafts --again`), and
the starter as text. Printed is the speed-up over plain decoding by class, of each alone and of both with the choice of
the controller, for pass costs of several machines and several prices of a step. One controller gives all answers of a
class; with --mixed it gives all answers, the classes in turns.
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
from app.engine.conversation.session import Session
from app.engine.costs.pass_cost import QUICK_WIDTHS, VerifyCurve
from app.engine.decoding.ending import Ending
from drafters.alternatives import one_of
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

    def __init__(self, situation: Situation, names: Sequence[str]) -> None:
        steps = dict(zip((MODEL, TEXT), situation.steps, strict=True))
        self._curve = VerifyCurve(CURVES[situation.curve])
        self._reading = {name: VerifyCurve({w: steps[name] * r for w, r in _READING.items()}) for name in names}
        costs = [ModelCost(name, VerifyCurve(curve.measured)) for name, curve in self._reading.items()]
        measured = {width: self._curve.seconds(width) for width in QUICK_WIDTHS}
        self._controller = AdaptiveController(VerifyCurve(measured), AnswerSettings(31), *costs)
        for name in names:
            self._controller.acceptance.expect(name, AGREED[name])

    def speedup(self, pair: Pair) -> float:
        """Give an answer; return its speed over plain decoding, the prompt's reading by the target left out."""
        clock, (trace, _) = VirtualClock(), pair
        target = ReplayModel("target", trace, lambda width, _: self._curve.seconds(width), clock)
        drafters = [
            self._drafter(name, one, target, clock)
            for name, one in zip((MODEL, TEXT), pair, strict=True)
            if name in self._reading
        ]
        hybrid = Hybrid([SuffixDrafter(target.vocab.is_end)], one_of(drafters), self._controller)
        session = Session(target, hybrid, clock)
        ending, sampler = Ending(target.vocab, budget=len(trace.answer)), Sampler(SamplingParams(temperature=0))
        for _ in session.answer(trace.prompt, sampler, ending, self._controller):
            pass
        assert session.tokens[len(trace.prompt) :] == list(trace.answer)
        return len(trace.answer) * self._curve.seconds(1) / session.stats.seconds

    def _drafter(self, name: str, trace: Trace, target: ReplayModel, clock: VirtualClock) -> DraftModel:
        model = ReplayModel.draft(trace, lambda width, _: self._reading[name].seconds(width), clock)
        model.name = name.removeprefix("model:")
        drafter = DraftModel(model, target.vocab)
        model.skipped = lambda: drafter.skipped
        return drafter


def by_class(situation: Situation, names: Sequence[str], answers: Sequence[Pair], *, mixed: bool) -> dict[str, float]:
    """Return the speed-up of each class of answers."""
    found: dict[str, list[float]] = defaultdict(list)
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in answers:
        groups[pair[0].kind].append(pair)
    together = Player(situation, names)
    for pair in _in_turns(groups) if mixed else answers:
        kind = pair[0].kind
        if not mixed and kind not in found:
            together = Player(situation, names)
        found[kind].append(together.speedup(pair))
    return {kind: len(each) / sum(1 / one for one in each) for kind, each in sorted(found.items())}


def _in_turns(groups: Mapping[str, Sequence[Pair]]) -> Iterator[Pair]:
    for row in zip_longest(*groups.values()):
        yield from (pair for pair in row if pair is not None)


def main() -> None:
    """Print the speed-ups of each situation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixed", action="store_true")
    asked = parser.parse_args()
    for situation in SITUATIONS:
        print(f"{situation.curve}, a step of the 0.5B {situation.steps[0]}, of the starter {situation.steps[1]}")
        for temperature in (0.0, 0.7):
            for words, names in (("0.5B", [MODEL]), ("starter", [TEXT]), ("both", [MODEL, TEXT])):
                found = by_class(situation, names, pairs(temperature), mixed=asked.mixed)
                shown = ", ".join(f"{kind} {speedup:.2f}" for kind, speedup in found.items())
                print(f"  {temperature:g} {words:8} all {geometric_mean(found.values()):.3f}: {shown}")


if __name__ == "__main__":
    main()
