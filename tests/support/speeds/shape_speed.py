"""What drafting gives at the size of a large model: python tests/support/run.py shape_speed SHAPE [TYPE] [--layers N]

SHAPE is 1.5b, 7b, 14b or 30b-a3b, TYPE is Q4_K_M (the default), Q2_K, TQ1_0 or TQ2_0. A file of that shape with random
weights is written and measured: milliseconds of passes by width, with all rows compared to those of passes of one
token, and of a step of the starter as a draft model. With --layers the time of all is extended from that many and half
of them.

Random weights accept no drafts. So the answers of tests/data/text_traces.jsonl.gz, which a 1.5B gave, with what the
starter drafted for them as text, are played back in virtual time with these costs, by the real engine and controller.
"""

import argparse
import time
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory
from unittest.mock import patch

import decision_log
import numpy as np
from curves import PUBLISHED
from decision_log import DATA, Situation, logged_answers
from large_gguf import SHAPES, write_shape
from replay import load

from app.engine.costs.provenance import processor_name
from models.library.catalog import find_model
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_DEPTH, _REPEATS, _STEPS = 256, 5, 64
"""Tokens in the cache, passes of each width in turns, and steps of the draft model."""
Curve = dict[int, float]
"""Seconds of a pass by its width."""


def measured(path: Path, threads: int) -> Curve:
    """Return the curve of a model; raises AssertionError where a row depends on the width of its pass."""
    model = LlamaModel(path, LlamaOptions(context_size=1024, max_rows=max(WIDTHS), threads=threads))
    text = [300 + place for place in range(_DEPTH + max(WIDTHS))]
    for start in range(0, _DEPTH, model.batch_size):
        model.decode(text[start : min(start + model.batch_size, _DEPTH)], rows=0)
    single = [model.decode([token], rows=1)[0].copy() for token in text[_DEPTH:]]
    taken: dict[int, list[float]] = defaultdict(list)
    for width in WIDTHS * _REPEATS:
        model.rewind(_DEPTH)
        started = time.perf_counter()
        rows = model.decode(text[_DEPTH : _DEPTH + width], rows=width)
        taken[width].append(time.perf_counter() - started)
        assert np.array_equal(rows, single[:width]), f"the rows of a pass of {width} are not those of single tokens"
    model.close()
    return {width: median(seconds) for width, seconds in taken.items()}


def extended(few: Curve, more: Curve, parts: tuple[int, int], whole: int) -> Curve:
    """Return the curve of a model with `whole` layers from those with `parts` layers: all layers cost the same."""
    by_layer = {width: (more[width] - few[width]) / (parts[1] - parts[0]) for width in few}
    return {width: few[width] + by_layer[width] * (whole - parts[0]) for width in few}


def step(threads: int) -> float:
    """Return the seconds in which the starter drafts a token."""
    model = LlamaModel(find_model("starter"), LlamaOptions(context_size=1024, screens=True, threads=threads))
    model.decode([100 + place for place in range(64)], rows=0)
    taken = []
    for token in range(200, 200 + _STEPS):
        started = time.perf_counter()
        model.decode([token], rows=1)
        taken.append(time.perf_counter() - started)
    model.close()
    return median(taken)


def played(curve: Curve, draft_step: float | None, temperature: float) -> dict[str, float]:
    """Return the speed-up of each class of recorded answers on a curve; without a step by the suffix index alone."""
    one = curve[1]
    relative = {width: seconds / one for width, seconds in curve.items()}
    situation = Situation("measured", "measured", step=None if draft_step is None else draft_step / one)
    traces = tuple(sorted(load(DATA / "text_traces.jsonl.gz", temperature), key=lambda trace: trace.kind))
    speedups: dict[str, list[float]] = defaultdict(list)
    with patch.dict(PUBLISHED, {"measured": relative}), patch.object(decision_log, "traces", lambda: traces):
        for answer in logged_answers((situation,)):
            speedups[answer.kind].append(answer.speedup)
    return {kind: len(each) / sum(1 / one for one in each) for kind, each in speedups.items()}


def main() -> None:
    """Print the curve, the step of the draft model, and the speed-ups."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("type", nargs="?", default="Q4_K_M")
    parser.add_argument("--layers", type=int, help="most layers in the file")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    shape = SHAPES[asked.shape]
    with TemporaryDirectory() as folder:

        def of(layers: int) -> Curve:
            path = write_shape(Path(folder) / "model.gguf", shape, asked.type, layers=layers)
            return measured(path, asked.threads)

        if asked.layers is None or asked.layers >= shape.layers:
            curve = of(shape.layers)
        else:
            parts = asked.layers // 2, asked.layers
            curve = extended(of(parts[0]), of(parts[1]), parts, shape.layers)
    draft_step = step(asked.threads)
    print(
        f"{processor_name()}, {asked.threads} threads, {asked.shape} in {asked.type}, {_DEPTH} tokens deep", flush=True
    )
    print("ms of a pass:", *(f"{width}: {1e3 * curve[width]:.0f} ({curve[width] / curve[1]:.2f})" for width in curve))
    print(f"ms of a step of the starter: {1e3 * draft_step:.1f} ({draft_step / curve[1]:.3f})")
    for words, cost in (("copies alone", None), ("copies and the starter's text", draft_step)):
        for temperature in (0.0, 0.7):
            found = played(curve, cost, temperature)
            shown = ", ".join(f"{kind} {speedup:.2f}" for kind, speedup in found.items())
            print(f"{words}, temperature {temperature:g}: {shown}, all {geometric_mean(found.values()):.2f}")


if __name__ == "__main__":
    main()
