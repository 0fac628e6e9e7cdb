"""Milliseconds of passes, and of a prompt, with our kernels and llama.cpp's: python tests/support/run.py kernel_speed
MODEL [RUNS]

Each run loads the model in a process of its own, as llama.cpp wants its weights rearranged; the two take turns, and the
median of all runs counts. The README names what it prints. For "mixture" in place of a model, one of 32 experts with
random weights is written, of which a token sees four; for "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0"
or "TQ2_0" one whose random weights are all of this type.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from gguf import LlamaFileType
from tiny_gguf import write_experts, write_llama

from models.kernels.compiling import OFF
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.llama.requantise import requantise

_WIDTHS = (1, 2, 4, 8, 16, 32)
_TYPES = {
    name: LlamaFileType[f"MOSTLY_{name}"]
    for name in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0")
}
_DEPTH, _REPEATS = 256, 12
"""Tokens in the cache, and passes of each width: widths take turns."""
_PROMPT, _PROMPTS = 512, 3


def passes(path: Path) -> dict[str, float]:
    """Return the median milliseconds of a pass by its width, all rows wanted, and of reading a prompt."""
    model = LlamaModel(path, LlamaOptions(context_size=1024, max_rows=max(_WIDTHS)))
    text = [100 + place % 150 for place in range(_PROMPT)]
    read(model, text[:_DEPTH])
    taken: dict[str, list[float]] = {str(width): [] for width in _WIDTHS}
    for width in _WIDTHS * _REPEATS:
        started = time.perf_counter()
        model.decode(text[:width], rows=width)
        taken[str(width)].append((time.perf_counter() - started) * 1e3)
        model.rewind(_DEPTH)
    taken[f"to read {_PROMPT}"] = [read(model, text) for _ in range(_PROMPTS)]
    model.close()
    return {what: median(milliseconds) for what, milliseconds in taken.items()}


def read(model: LlamaModel, text: list[int]) -> float:
    """Return the milliseconds in which a model reads a text as a prompt, into an empty cache."""
    model.rewind(0)
    started = time.perf_counter()
    for start in range(0, len(text), model.batch_size):
        model.decode(text[start : start + model.batch_size], rows=0)
    return (time.perf_counter() - started) * 1e3


def mixture(folder: Path) -> str:
    """Write a mixture of experts in Q4_K_M, 0.2 GB, and return its path."""
    source = write_experts(folder / "plain.gguf", n_ctx=1024, n_layer=4, n_embd=1024, experts=32, used=4)
    requantise(source, folder / "mixture.gguf", "Q4_K_M")
    return str(folder / "mixture.gguf")


def of_type(folder: Path, name: str) -> str:
    """Write a model of 0.2 billion weights of a type, and return its path."""
    return str(write_llama(folder / "one.gguf", n_ctx=1024, n_layer=6, n_embd=2048, file_type=_TYPES[name]))


def main(path: str, runs: int = 3) -> None:
    seen: dict[str, list[dict[str, float]]] = {"llama.cpp's": [], "localspec's": []}
    for _ in range(runs):
        for kernels, all_ in seen.items():
            environment = {**os.environ, OFF: "on" if kernels == "localspec's" else "off"}
            command = [sys.executable, __file__, path, "child"]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
            all_.append(json.loads(done.stdout))
    for kernels, all_ in seen.items():
        print(kernels, *(f"{what}: {median(one[what] for one in all_):.1f} ms" for what in all_[0]), sep="  ")


if __name__ == "__main__":
    if sys.argv[2:] == ["child"]:
        print(json.dumps(passes(Path(sys.argv[1]))))
    elif sys.argv[1] == "mixture":
        with TemporaryDirectory() as made:
            main(mixture(Path(made)), *map(int, sys.argv[2:]))
    elif sys.argv[1] in _TYPES:
        with TemporaryDirectory() as made:
            main(of_type(Path(made), sys.argv[1]), *map(int, sys.argv[2:]))
    else:
        main(sys.argv[1], *map(int, sys.argv[2:]))
