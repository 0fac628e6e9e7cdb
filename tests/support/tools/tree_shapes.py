"""What trees beside a draft model's chain would give: python tests/support/run.py tree_shapes DRAFT [--step .29]

Greedy answers in tests/data, which a 1.5B gave, are read by a draft model of its family, which names its choices for
each token. Shapes of trees are then counted through on these answers: a chain; with second choices beside its first
places; with up to four choices there; and with choices that go on, as in Sequoia (Chen et al. 2024, arXiv 2402.12374).
The best shape of each kind is chosen on one half of the answers and judged on the other, and the other way round.

A round costs a pass of its width by --curve and a step of the draft model for each place. Choices that go on cost no
steps of their own, as if they were drafted with the chain. An accepted token beside the chain is read again.
"""

import argparse
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from models.library.catalog import find_model
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

_DATA = Path(__file__).parents[2] / "data"
_FILES = ("traces.jsonl.gz", "text_traces.jsonl.gz")
_PASS, _LONGEST_TEXT = 32, 4000
_MISSED = 99
"""Rank of a token that is not among the first choices."""
_CHOICES = 8
_CURVES = {
    "AVX2": "1:86,2:117,4:192,8:327,16:641,32:1279",
    "AVX-512": "1:25.9,2:27.3,4:27.3,8:37,16:62,32:103",
    "flat": "1:1,32:1.05",
}
"""Passes by width: two of the 1.5B, in milliseconds, from the manual's page on kernels; and those of an imagined card
on which wide passes cost hardly more than narrow ones."""
Ranks = Sequence[int]
"""For each token of an answer its rank among the draft model's choices, from 0."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A tree of equal shape in every round."""

    beside: tuple[int, ...]
    """For each place of the chain, the choices beside the chain's own."""
    further: tuple[int, ...]
    """For each place, the tokens that each choice beside the chain is followed by."""

    @property
    def size(self) -> int:
        """Tokens to verify."""
        return len(self.beside) + sum(count * (1 + on) for count, on in zip(self.beside, self.further, strict=True))


def rounds_of(ranks: Ranks, shape: Shape) -> tuple[int, int]:
    """Return the rounds that an answer takes, and the accepted tokens beside the chain."""
    at, rounds, again = 0, 0, 0
    while at < len(ranks):
        place = 0
        while place < len(shape.beside) and at + place < len(ranks) and ranks[at + place] == 0:
            place += 1
        got = place
        if place < len(shape.beside) and at + place < len(ranks) and ranks[at + place] <= shape.beside[place]:
            on = 0
            while on < shape.further[place] and at + got + 1 + on < len(ranks) and ranks[at + got + 1 + on] == 0:
                on += 1
            got, again = got + 1 + on, again + 1 + on
        at, rounds = at + got + 1, rounds + 1
    return rounds, again


def speed_up(answers: Sequence[Ranks], shape: Shape, seconds: Callable[[int], float], step: float) -> float:
    """Return the speed over plain decoding; `seconds` and `step` are in passes of one token."""
    counted = [rounds_of(ranks, shape) for ranks in answers]
    rounds, again = (sum(column) for column in zip(*counted, strict=True))
    taken = rounds * (seconds(1 + shape.size) + step * len(shape.beside)) + again * (seconds(2) - 1)
    return sum(map(len, answers)) / taken


def shapes() -> dict[str, list[Shape]]:
    """Return the shapes of each kind."""
    found: dict[str, list[Shape]] = {"chain": [], "second choices": [], "several choices": [], "that go on": []}
    for length in range(1, 9):
        none = (0,) * length
        found["chain"].append(Shape(none, none))
        for first, many in product(range(1, length + 1), (1, 2, 3)):
            beside = (many,) * first + (0,) * (length - first)
            found["second choices" if many == 1 else "several choices"].append(Shape(beside, none))
            if many < 3 and first <= 3:
                for on in range(1, length):
                    further = tuple(min(on, length - 1 - place) if place < first else 0 for place in range(length))
                    found["that go on"].append(Shape(beside, further))
    return found


def judged(answers: Sequence[Ranks], kind: Sequence[Shape], seconds: Callable[[int], float], step: float) -> float:
    """Return the speed-up of the shape that is best on one half of the answers on the other half; both ways, mean."""
    halves = answers[::2], answers[1::2]
    found = []
    for chosen_on, judged_on in (halves, halves[::-1]):
        best = max(kind, key=lambda shape: speed_up(chosen_on, shape, seconds, step))
        found.append(speed_up(judged_on, best, seconds, step))
    return float(np.mean(found))


def read_ranks(draft: Path) -> Iterator[tuple[str, Ranks]]:
    """Yield the class and the ranks of each greedy answer."""
    model = LlamaModel(draft, LlamaOptions(context_size=_LONGEST_TEXT + _PASS, max_rows=_PASS))
    try:
        for name in _FILES:
            with gzip.open(_DATA / name, "rt") as file:
                for told in map(json.loads, file):
                    if told["t"] == 0 and len(told["prompt"]) + len(told["answer"]) <= _LONGEST_TEXT:
                        yield told["class"], _ranks(model, told["prompt"], told["answer"])
    finally:
        model.close()


def _ranks(model: LlamaModel, prompt: list[int], answer: list[int]) -> Ranks:
    model.rewind(0)
    for start in range(0, len(prompt) - 1, _PASS):
        model.decode(prompt[start : min(start + _PASS, len(prompt) - 1)], rows=0)
    found, text = list[int](), [prompt[-1], *answer[:-1]]
    for start in range(0, len(text), _PASS):
        part = text[start : start + _PASS]
        for row, token in zip(model.decode(part, rows=len(part)), answer[start:], strict=False):
            rank = int((row > row[token]).sum())
            found.append(rank if rank < _CHOICES else _MISSED)
    return found


def curve_of(text: str) -> Callable[[int], float]:
    """Return the cost of a pass over that of one token by its width, from a text such as `1:25.9,8:37`.

    Between widths it is interpolated; beyond the widest, that width's cost counts.
    """
    points = {int(width): float(cost) for width, cost in (each.split(":") for each in text.split(","))}
    widths = sorted(points)
    return lambda width: float(np.interp(width, widths, [points[each] / points[1] for each in widths]))


def further_choices(answers: Sequence[Ranks], most: int = 4) -> list[float]:
    """Return the share of places where each choice is right among those where all before it are wrong."""
    ranks = np.concatenate([np.array(each) for each in answers])
    return [float((ranks == rank).sum() / max(1, (ranks >= rank).sum())) for rank in range(most)]


def main() -> None:
    """Print the chances of further choices, and what shapes of each kind give by class and curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("draft")
    parser.add_argument("--step", type=float, default=0.29, help="step of the draft model, in passes of one token")
    parser.add_argument("--curve", help="passes by width, from 1 on, such as 1:25.9,8:37; default: three of them")
    asked = parser.parse_args()
    told = [*read_ranks(find_model(asked.draft))]
    everything = [ranks for _, ranks in told]
    print(f"{len(told)} answers, {sum(map(len, everything)):,} tokens; a step costs {asked.step:g}")
    print("right where those before are wrong:", ", ".join(f"{share:.2f}" for share in further_choices(everything)))
    for curve, text in ({"given": asked.curve} if asked.curve else _CURVES).items():
        for name in ("all", *dict.fromkeys(kind for kind, _ in told)):
            answers = [ranks for kind, ranks in told if name in ("all", kind)]
            gains = {each: judged(answers, kind, curve_of(text), asked.step) for each, kind in shapes().items()}
            print(f"{curve:8} {name:10}", ", ".join(f"{each} {gain:.2f}" for each, gain in gains.items()))


if __name__ == "__main__":
    main()
