"""Passes, prompts and drafting deep in a text: python tests/support/run.py depth_speed MODEL [--depths 0,2048,8192]

Prints milliseconds of passes by width at each depth, with the share of what lies before (the difference from the first
depth: attention alone grows), and seconds of reading the text up to there. With --against the same is read and
measured by llama.cpp's own kernels, in a process of its own.

Answers of tests/data/text_traces.jsonl.gz, which a 1.5B gave, with what the starter drafted for them as text, are then
played back with the costs of each depth, by the real engine and controller. The starter reads a text in a window of its
own context; so a step of it is measured at the same depth, up to that window.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

from shape_speed import Curve, played

from app.engine.costs.provenance import processor_name
from models.kernels.compiling import OFF
from models.library.catalog import find_model
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

_WIDTHS = (1, 2, 3, 4, 6, 8)
_REPEATS, _STEPS = 7, 48
"""Passes of each width in turns, and steps of the draft model."""
_WINDOW = 8192 - 64
"""Tokens that the starter reads at most."""


@dataclass(frozen=True, slots=True)
class Depth:
    """What passes cost at one depth."""

    tokens: int
    read: float
    """Seconds of reading the text up to here."""
    curve: Curve


def measured(path: Path, depths: Sequence[int], threads: int, widths: Sequence[int] = _WIDTHS) -> list[Depth]:
    """Read a text up to each depth in turn, and time passes there; every row of a pass is wanted."""
    model = LlamaModel(
        path, LlamaOptions(context_size=max(depths) + 64, max_rows=max(widths), threads=threads, batch_threads=threads)
    )
    text = [300 + place % 5000 for place in range(max(depths) + max(widths))]
    found, read, at = [], 0.0, 0
    for depth in depths:
        started = time.perf_counter()
        for start in range(at, depth, model.batch_size):
            model.decode(text[start : min(start + model.batch_size, depth)], rows=0)
        read, at = read + time.perf_counter() - started, depth
        found.append(Depth(depth, read, _curve(model, text, depth, widths)))
    model.close()
    return found


def _curve(model: LlamaModel, text: list[int], depth: int, widths: Sequence[int]) -> Curve:
    taken: dict[int, list[float]] = defaultdict(list)
    for width in (*widths[:1], *widths) * _REPEATS:
        started = time.perf_counter()
        model.decode(text[depth : depth + width], rows=width)
        taken[width].append(time.perf_counter() - started)
        model.rewind(depth)
    return {width: median(taken[width]) for width in widths}


def steps(depths: Sequence[int], threads: int) -> list[float]:
    """Return the seconds of a step of the starter at each depth, within its window."""
    model = LlamaModel(find_model("starter"), LlamaOptions(context_size=_WINDOW + 64, screens=True, threads=threads))
    found, at = [], 0
    text = [100 + place % 5000 for place in range(_WINDOW + 64)]
    for depth in depths:
        until = min(max(depth, 32), _WINDOW - _STEPS)
        for start in range(at, until, model.batch_size):
            model.decode(text[start : min(start + model.batch_size, until)], rows=0)
        taken = []
        for token in text[until : until + _STEPS]:
            started = time.perf_counter()
            model.decode([token], rows=1)
            taken.append(time.perf_counter() - started)
        model.rewind(until)
        at = until
        found.append(median(taken))
    model.close()
    return found


def _shown(depths: Sequence[Depth]) -> None:
    for each in depths:
        passes = (f"{width}: {1e3 * cost:.1f} ({cost / each.curve[1]:.2f})" for width, cost in each.curve.items())
        before = 1 - depths[0].curve[1] / each.curve[1]
        print(f"{each.tokens} tokens deep, read in {each.read:.1f} s; ms of a pass", *passes, f"before: {before:.0%}")


def _by_llama_cpp(model: str, depths: str, threads: int) -> list[Depth]:
    """Measure in a process without our kernels."""
    command = [sys.executable, *_tool(), model, "--depths", depths, "--threads", str(threads), "--raw"]
    done = subprocess.run(command, env=os.environ | {OFF: "0"}, check=True, stdout=subprocess.PIPE, text=True)
    records = json.loads(done.stdout.splitlines()[-1])
    return [Depth(one, read, {int(width): cost for width, cost in curve.items()}) for one, read, curve in records]


def _tool() -> list[str]:
    return [str(Path(__file__).parents[1] / "run.py"), "depth_speed"]


def main() -> None:
    """Print passes and prompts by depth, and the speed-ups in playback."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--depths", default="32,2048,8192")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--against", action="store_true", help="measure llama.cpp's kernels too")
    parser.add_argument("--raw", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    depths = [int(each) for each in asked.depths.split(",")]
    found = measured(find_model(asked.model), depths, asked.threads)
    if asked.raw:
        print(json.dumps([(each.tokens, each.read, each.curve) for each in found]))
        return
    print(f"{processor_name()}, {asked.threads} threads, {asked.model}", flush=True)
    _shown(found)
    if asked.against:
        print("llama.cpp's kernels:", flush=True)
        _shown(_by_llama_cpp(asked.model, asked.depths, asked.threads))
    for each, step in zip(found, steps(depths, asked.threads), strict=True):
        one = each.curve[1]
        for words, cost in (("copies", None), (f"copies and text (a step {step / one:.3f})", step)):
            for temperature in (0.0, 0.7):
                speedups = played(each.curve, cost, temperature)
                classes = ", ".join(f"{kind} {speedup:.2f}" for kind, speedup in speedups.items())
                together = geometric_mean(speedups.values())
                print(
                    f"{each.tokens} deep, {words}, temperature {temperature:g}: {classes}, all {together:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
