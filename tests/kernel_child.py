"""A process of its own for one build of the kernels: the dynamic linker takes the first of a name, and keeps it.

Run as a program with the library, what to do with it, and the file for the answer; see `run_kernels`.
"""

import ctypes
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from run_localspec import ROOT

FOLDER = Path(find_spec("llama_cpp").origin).parent / "lib"  # type: ignore[union-attr,arg-type]
TYPES = {"Q4_K": 12, "Q5_K": 13, "Q6_K": 14}
LENGTHS = (256, 1536)
ROWS = (1, 50, 301)
COLUMNS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 33)


def run_kernels(library: Path, work: str, answer: Path) -> None:
    """Do "check" (answers with the reason why they are not in use), or "products" (with all of them) in a child."""
    command = [sys.executable, __file__, str(library), work, str(answer)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GGML_", "LOCALSPEC"))}
    subprocess.run(command, check=True, timeout=120, env={**kept, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"})


def drawn(length: int, rows: int, columns: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    draw = np.random.default_rng([length, rows])
    # Of very different sizes, as in models: a block's scale is its largest number.
    weights = draw.standard_normal((rows, length)) * np.exp(draw.standard_normal((rows, length // 32)).repeat(32, 1))
    x = draw.standard_normal((columns, length)) * np.exp(draw.standard_normal((columns, 1)))
    return weights.astype(np.float32), x.astype(np.float32)


def _products(kernels: Any) -> dict[str, NDArray[np.float32]]:
    """Return products by type, length, rows, columns and threads, of more and more columns of the same matrix."""
    from models.kernels.check import Ggml

    ggml = Ggml(ctypes.CDLL(str(FOLDER / "libggml-base.so")), ctypes.CDLL(str(FOLDER / "libggml-cpu.so")))
    made = {}
    for name, kind in TYPES.items():
        for length in LENGTHS:
            for rows in ROWS:
                weights, x = drawn(length, rows, max(COLUMNS))
                for columns in COLUMNS:
                    for threads in (1, 2):
                        key = f"{name} {length} {rows} {columns} {threads}"
                        made[key] = ggml.product(kind, weights, x[:columns], threads)
    assert kernels.library.localspec_products() >= len(made)
    return made


def main(library: str, work: str, answer: str) -> None:
    from models.kernels.takeover import Kernels

    mode = ctypes.RTLD_LOCAL if work == "check alone" else ctypes.RTLD_GLOBAL
    kernels = Kernels(ctypes.CDLL(library, mode=mode)).connect(FOLDER)
    if work == "products":
        assert kernels.reason == ""
        np.savez(answer, **_products(kernels))
    else:
        Path(answer).write_text(json.dumps(kernels.reason))


if __name__ == "__main__":
    main(*sys.argv[1:])
