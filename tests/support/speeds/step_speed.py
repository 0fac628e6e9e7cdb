"""Milliseconds of a draft model's step with screened rows and with whole ones: python tests/support/run.py step_speed
MODEL TEXT

Both take turns over the same file of text, and the median counts; how often both rows have the same likeliest token is
told too. The README names what it prints.
"""

import sys
import time
from pathlib import Path
from statistics import fmean, median

import numpy as np

from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

_BEFORE, _STEPS = 256, 512
"""Tokens of the text that are read first, and those that are stepped through."""


def main(path: str, text: str) -> None:
    models = {
        name: LlamaModel(Path(path), LlamaOptions(context_size=1024, screens=screens))
        for name, screens in (("whole", False), ("screened", True))
    }
    tokens = models["whole"].vocab.tokenize(Path(text).read_text(), special=False)[: _BEFORE + _STEPS]
    for model in models.values():
        for start in range(0, _BEFORE, model.batch_size):
            model.decode(tokens[start : min(start + model.batch_size, _BEFORE)], rows=0)
    taken: dict[str, list[float]] = {name: [] for name in models}
    alike, kept = [], 0
    for token in tokens[_BEFORE:]:
        rows = {}
        for name, model in models.items():
            started = time.perf_counter()
            rows[name] = model.decode([token], rows=1)[0]
            taken[name].append((time.perf_counter() - started) * 1e3)
        alike.append(rows["whole"].argmax() == rows["screened"].argmax())
        kept = np.isfinite(rows["screened"]).sum()
    for name, each in taken.items():
        print(f"{name}  {median(each):.2f} ms")
    print(f"{kept} of {len(rows['whole'])} rows; the same likeliest token in {fmean(alike):.2%} of {len(alike)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
