"""What each number of threads gives: python tests/support/run.py thread_speed MODEL [--threads 1,2,4] [--slow SHARE]

Prints milliseconds of passes by width for each number of threads, and the share of the threads' time that is not work:
1 - T(one thread) / (n T(n threads)), which is waiting for each other, for memory, or for a core. Numbers of threads
take turns.

With --slow one core is made slower: a process of higher priority holds it for that share of each two milliseconds, as
an efficiency core beside performance cores is slower. The passes are measured before and beside it; "following" is a
model whose threads follow the cores that other programs leave free, as `localspec run` has it without -t.
"""

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from app.engine.costs.provenance import processor_name
from models.library.catalog import find_model
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

_WIDTHS = (1, 4, 8)
_DEPTH, _REPEATS, _IN_A_ROW = 256, 8, 12
"""Tokens in the cache, turns, and passes of each turn: threads that follow free cores look a few times a second."""
_PERIOD = 0.002
_HOLD = """
import sys, time
share, period = float(sys.argv[1]), float(sys.argv[2])
while True:
    until = time.perf_counter() + share * period
    while time.perf_counter() < until:
        pass
    time.sleep((1 - share) * period)
"""


@contextmanager
def held_core(share: float) -> Iterator[None]:
    """Hold the last core for a share of the time; raises PermissionError where no higher priority is allowed."""
    child = subprocess.Popen([sys.executable, "-c", _HOLD, str(share), str(_PERIOD)])
    try:
        os.sched_setaffinity(child.pid, {max(os.sched_getaffinity(0))})
        os.setpriority(os.PRIO_PROCESS, child.pid, -20)
        time.sleep(1.5)
        yield
    finally:
        child.kill()
        child.wait()


def measured(models: dict[str, LlamaModel]) -> dict[str, dict[int, float]]:
    """Return the median seconds of passes by name of the model and width; models take turns."""
    taken: dict[str, dict[int, list[float]]] = {name: defaultdict(list) for name in models}
    text = [300 + place for place in range(max(_WIDTHS))]
    for _ in range(_REPEATS):
        for name, model in models.items():
            for width in _WIDTHS * _IN_A_ROW:
                started = time.perf_counter()
                model.decode(text[:width], rows=width)
                taken[name][width].append(time.perf_counter() - started)
                model.rewind(_DEPTH)
    return {name: {width: median(each) for width, each in widths.items()} for name, widths in taken.items()}


def opened(path: str, threads: int) -> LlamaModel:
    """Load a model with a number of threads, 0 for as many as there are free cores, and fill its cache."""
    options = LlamaOptions(context_size=1024, max_rows=max(_WIDTHS), threads=threads, batch_threads=threads)
    model = LlamaModel(find_model(path), options)
    if not threads:
        model.follow_free_cores()
    text = [300 + place for place in range(_DEPTH)]
    for start in range(0, _DEPTH, model.batch_size):
        model.decode(text[start : start + model.batch_size], rows=0)
    return model


def shown(found: dict[str, dict[int, float]]) -> Iterator[str]:
    """Yield a line for each number of threads."""
    alone = found.get("1")
    for name, passes in found.items():
        line = ", ".join(f"{width}: {1e3 * seconds:.1f}" for width, seconds in passes.items())
        if alone and name.isdigit() and int(name) > 1:
            shares = (1 - alone[width] / (int(name) * seconds) for width, seconds in passes.items())
            line += f"; not work {', '.join(f'{share:.0%}' for share in shares)}"
        yield f"  {name} threads, ms of a pass {line}" if name.isdigit() else f"  {name}, ms of a pass {line}"


def main() -> None:
    """Print passes by number of threads, alone and beside a slowed core."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--slow", default="", help="shares of the last core to take away, for example .3,.5,.7")
    asked = parser.parse_args()
    models = {name: opened(asked.model, int(name)) for name in asked.threads.split(",")}
    models["following"] = opened(asked.model, 0)
    print(f"{processor_name()}, {asked.model}", flush=True)
    print("\n".join(shown(measured(models))), flush=True)
    for share in filter(None, asked.slow.split(",")):
        with held_core(float(share)):
            print(f"the last core held {float(share):.0%} of the time:")
            print("\n".join(shown(measured(models))), flush=True)
    for model in models.values():
        model.close()


if __name__ == "__main__":
    main()
