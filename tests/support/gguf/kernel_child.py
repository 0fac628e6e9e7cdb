"""A process of its own for one build of the kernels: the dynamic linker takes the first of a name, and keeps it.

Run as a program with the library, what to do with it, and the file for the answer; see `run_kernels`.
"""

import ctypes
import json
import mmap
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from run_localspec import TEST_PATH

FOLDER = Path(find_spec("llama_cpp").origin).parent / "lib"  # type: ignore[union-attr,arg-type]
TYPES = {
    "Q2_K": 10,
    "Q3_K": 11,
    "Q4_K": 12,
    "Q5_K": 13,
    "Q6_K": 14,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q5_0": 6,
    "Q5_1": 7,
    "Q8_0": 8,
    "IQ4_NL": 20,
    "IQ4_XS": 23,
    "MXFP4": 39,
    "IQ2_XXS": 16,
    "IQ2_XS": 17,
    "IQ2_S": 22,
    "IQ3_XXS": 18,
    "IQ3_S": 21,
    "TQ1_0": 34,
    "TQ2_0": 35,
}
"""Packed types."""
SHORT = {"F16": 1, "BF16": 30}
"""Types of 16 bits a number."""
LONG = (
    "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0",
    "TQ2_0",
)  # fmt: skip
"""Types whose blocks have 256 numbers."""
LENGTHS = {name: (256, 1536, 4096) if name in LONG else (32, 896, 4064) for name in TYPES}
"""Of rows; those of 32 numbers a block need not be whole groups of eight blocks."""
ROWS = (1, 131)
LARGE = 3001
"""Rows of 4096 weights that threads share in pieces of about a megabyte, taken as each is ready for one."""
PARTS = ((0, 40), (1480, 1520), (LARGE - 40, LARGE))
"""Some of them, which are few enough to be shared at once."""
COLUMNS = (*range(1, 18), 33)
THREADED = (1, max(COLUMNS))
"""Numbers of columns that two threads work out as well."""
F32, PLAIN_LENGTHS = 0, (32, 96, 4000)
OTHER = 29
"""A type of experts that these kernels leave to llama.cpp: IQ1_M."""
EXPERTS, CHOICES, EXPERT_ROWS = 4, 2, 37
EXPERT_TOKENS = (1, 2, 9, 32, 40)
GUARDED_LENGTHS = {False: (32, 96, 896), True: (256, 768)}
"""Of rows that end where no memory is, by whether blocks have 256 numbers."""
GUARDED_ROWS, GUARDED_COLUMNS = (1, 21, 128), (1, 9)
SCREENED_ROWS = 6 * 128 + 51
SCREENED_LENGTHS = {False: (64, 832), True: (256, 1536)}
"""Of rows to screen, by whether blocks have 256 numbers."""
SCREENED_COLUMNS = (1, 3, 4, 5)
"""With the last there are too many."""
CACHES = {"q8_0/f16": (8, 1), "q8_0/bf16": (8, 30), "f16/f16": (1, 1)}
"""Types of keys and of values, in ggml's numbers."""
HEADS = ((12, 2), (7, 1), (4, 4))
SIZES = (64, 128)
CELLS = (1, 40, 256, 700)
TOKENS = (1, 2, 3, 8, 17)
WINDOW = 300
"""Tokens that a sliding window looks back on."""


def run_kernels(library: Path, work: str, answer: Path) -> None:
    """Have the kernels do some work, and write down what came of it.

    "check": the reason why they are not in use. "products", "guarded", "experts", "screens" or "attention": results.
    """
    command = [sys.executable, __file__, str(library), work, str(answer)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GGML_", "LOCALSPEC"))}
    subprocess.run(command, check=True, timeout=600, env={**kept, "PYTHONPATH": TEST_PATH})


def drawn(length: int, rows: int, columns: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    draw = np.random.default_rng([length, rows])
    # Of very different sizes, as in models: a block's scale is its largest number.
    weights = draw.standard_normal((rows, length)) * np.exp(draw.standard_normal((rows, length // 32)).repeat(32, 1))
    x = draw.standard_normal((columns, length)) * np.exp(draw.standard_normal((columns, 1)))
    # The largest products that there are, all of one sign: those whose sums could be too large for sixteen bits.
    x[-1] = 1
    if rows > 1:
        weights[-1], weights[-1, ::32], weights[-2] = 1, 0, -1
    return weights.astype(np.float32), x.astype(np.float32)


def drawn_attention(
    heads: int, groups: int, size: int, cells: int
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Return queries, keys and values."""
    draw = np.random.default_rng([heads, size, cells])
    shapes = (heads, max(TOKENS), size), (groups, cells, size), (groups, cells, size)
    q, k, v = (draw.standard_normal(shape).astype(np.float32) for shape in shapes)
    # Some tokens are sure of what they attend to, and some places stand out.
    q[:, ::3] *= 6
    v[:, ::7] *= 20
    return q, k, v


def drawn_mask(cells: int) -> NDArray[np.float16]:
    """Return what tokens attend to: those before them, within a window, and no empty cell; always to something."""
    place, token = np.arange(cells), np.arange(max(TOKENS))[:, None]
    last = np.maximum(cells - 2 * max(TOKENS) + token, 0)
    seen = (place <= last) & (place > last - WINDOW) & ((place % 11 != 5) | (place == last))
    return np.where(seen, 0, -np.inf).astype(np.float16)


def _attention(kernels: Any) -> dict[str, NDArray[np.float32]]:
    """Return results by types, heads, size, cells, tokens and threads."""
    from models.kernels.ggml import Ggml

    ggml = Ggml(ctypes.CDLL(str(FOLDER / "libggml-base.so")), ctypes.CDLL(str(FOLDER / "libggml-cpu.so")))
    made = {}
    for name, kinds in CACHES.items():
        for heads, groups in HEADS:
            for size in SIZES:
                for cells in CELLS:
                    (q, k, v), mask = drawn_attention(heads, groups, size, cells), drawn_mask(cells)
                    for tokens in TOKENS:
                        for threads in (1, 2, 3):
                            key = f"{name} {heads} {size} {cells} {tokens} {threads}"
                            made[key] = ggml.attention(kinds, (q[:, :tokens], k, v), mask[:tokens], threads)
        made[f"{name} near"], made[f"{name} spread"] = _near_and_spread(ggml, kinds)
    assert kernels.library.localspec_operations() >= len(made)
    return made


def _near_and_spread(ggml: Any, kinds: tuple[int, int]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return attention to neighbouring cells, and to the same among others that are masked."""
    q, k, v = drawn_attention(12, 2, 64, 300)
    place = np.sort(np.random.default_rng(5).permutation(470)[:300])
    _, k_among, v_among = drawn_attention(12, 2, 64, 470)
    k_among[:, place], v_among[:, place] = k, v
    seen = np.isin(np.arange(470), place)
    mask = np.broadcast_to(np.where(seen, 0, -np.inf), (max(TOKENS), 470)).astype(np.float16)
    near = ggml.attention(kinds, (q, k, v), np.zeros((max(TOKENS), 300), np.float16), 2)
    return near, ggml.attention(kinds, (q, k_among, v_among), mask, 2)


def _products(kernels: Any) -> dict[str, NDArray[np.float32]]:
    """Return products by type, length, rows, columns and threads, of more and more columns of the same matrix."""
    from models.kernels.ggml import Ggml

    ggml = Ggml(ctypes.CDLL(str(FOLDER / "libggml-base.so")), ctypes.CDLL(str(FOLDER / "libggml-cpu.so")))
    made = {}
    for name, kind in {**TYPES, **SHORT, "F32": F32}.items():
        for length in LENGTHS.get(name, PLAIN_LENGTHS):
            for rows in ROWS:
                weights, x = drawn(length, rows, max(COLUMNS))
                for columns in COLUMNS:
                    for threads in (1, 2) if columns in THREADED else (1,):
                        key = f"{name} {length} {rows} {columns} {threads}"
                        made[key] = ggml.product(kind, weights, x[:columns], threads)
    assert kernels.library.localspec_operations() >= len(made)
    return made | _large_products(ggml)


def _guarded(_: Any) -> dict[str, NDArray[np.float32]]:
    """Return products with weights behind which there is no memory, and behind "free" those with memory everywhere."""
    from models.kernels.ggml import Ggml

    libraries = [ctypes.CDLL(str(FOLDER / f"libggml-{name}.so")) for name in ("base", "cpu")]
    ggml, guarded, made = Ggml(*libraries), _guarding()(*libraries), {}
    for name, kind in {**TYPES, **SHORT}.items():
        for length in GUARDED_LENGTHS[name in LONG]:
            for rows in GUARDED_ROWS:
                weights, x = drawn(length, rows, max(GUARDED_COLUMNS))
                for columns in GUARDED_COLUMNS:
                    key = f"{name} {length} {rows} {columns}"
                    made[key] = guarded.product(kind, weights, x[:columns])
                    made[f"free {key}"] = ggml.product(kind, weights, x[:columns])
    return made


def _guarding() -> Any:
    """Return a class that puts weights at the end of a page whose next one can't be read."""
    from models.kernels.ggml import Ggml

    protect, data_offset = ctypes.CDLL(None).mprotect, 248  # of `data` in ggml.h's tensor

    class Guarding(Ggml):
        def _filled(self, context: int, kind: int, values: NDArray[np.float32]) -> int:
            tensor = super()._filled(context, kind, values)
            if kind != F32:
                size = self.size(tensor)
                self.kept = mmap.mmap(-1, (size // mmap.PAGESIZE + 2) * mmap.PAGESIZE)
                end = ctypes.addressof(ctypes.c_char.from_buffer(self.kept)) + len(self.kept) - mmap.PAGESIZE
                assert protect(ctypes.c_void_p(end), mmap.PAGESIZE, 0) == 0
                ctypes.memmove(end - size, self.data(tensor), size)
                ctypes.c_void_p.from_address(tensor + data_offset).value = end - size
                assert self.data(tensor) == end - size
            return tensor

    return Guarding


def drawn_experts(length: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int32]]:
    """Return weights, activations for each choice of each token, and what they choose: most of them the same one."""
    draw = np.random.default_rng(length)
    weights = draw.standard_normal((EXPERTS, EXPERT_ROWS, length))
    x = draw.standard_normal((max(EXPERT_TOKENS), CHOICES, length))
    first = np.where(draw.random(len(x)) < 0.7, 2, draw.integers(0, EXPERTS, len(x)))
    chosen = np.stack([first, (first + 1 + draw.integers(0, EXPERTS - 1, len(x))) % EXPERTS], axis=1)
    return weights.astype(np.float32), x.astype(np.float32), chosen.astype(np.int32)


def _experts(kernels: Any) -> dict[str, NDArray[Any]]:
    """Return products of experts by type, tokens and threads, and those of all tokens with each expert's matrix.

    Behind "shared" one x is for all choices of a token.
    """
    from models.kernels.ggml import Ggml

    ggml = Ggml(ctypes.CDLL(str(FOLDER / "libggml-base.so")), ctypes.CDLL(str(FOLDER / "libggml-cpu.so")))
    made: dict[str, NDArray[Any]] = {}
    for name, kind in {**TYPES, "IQ1_M": OTHER}.items():
        weights, x, chosen = drawn_experts(LENGTHS.get(name, (512,))[-1])
        made[f"chosen {name}"] = chosen
        made[f"dense {name}"] = np.stack(
            [ggml.product(kind, one, x.reshape(-1, x.shape[2])).reshape(*x.shape[:2], -1) for one in weights]
        )
        for tokens in EXPERT_TOKENS:
            for threads in (1, 2, 3):
                key = f"{name} {tokens} {threads}"
                made[key] = ggml.experts(kind, weights, x[:tokens], chosen[:tokens], threads)
                made[f"shared {key}"] = ggml.experts(kind, weights, x[:tokens, :1], chosen[:tokens], threads)
        kernels.enable(False)
        made[f"theirs {name}"] = ggml.experts(kind, weights, x, chosen)
        kernels.enable(True)
    return made


def drawn_screened(length: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return weights and activations, some of which are far larger than the others, as after a model's last norm."""
    draw = np.random.default_rng(length)
    weights = draw.standard_normal((SCREENED_ROWS, length)) * np.exp(draw.standard_normal((SCREENED_ROWS, 1)) / 4)
    x = draw.standard_normal((max(SCREENED_COLUMNS), length))
    x[:, ::50] *= 12
    return weights.astype(np.float32), x.astype(np.float32)


def _screens(kernels: Any) -> dict[str, NDArray[np.float32]]:
    """Return screened products by type, length, columns and threads, and the whole ones."""
    from models.kernels.check_screen import screening
    from models.kernels.ggml import Ggml

    ggml = Ggml(ctypes.CDLL(str(FOLDER / "libggml-base.so")), ctypes.CDLL(str(FOLDER / "libggml-cpu.so")))
    made = {}
    for name, kind in TYPES.items():
        for length in SCREENED_LENGTHS[name in LONG]:
            weights, x = drawn_screened(length)
            made[f"whole {name} {length}"] = ggml.product(kind, weights, x)
            for columns in SCREENED_COLUMNS:
                for threads in (1, 2, 3):
                    with screening(kernels.library, SCREENED_ROWS, length):
                        once = ggml.product(kind, weights, x[:columns], threads)
                        made[f"{name} {length} {columns} {threads}"] = once
    return made


def _large_products(ggml: Any) -> dict[str, NDArray[np.float32]]:
    """Return products of Q4_K with many rows, by threads, and with some of the rows alone."""
    weights, x = drawn(4096, LARGE, 3)
    made = {f"large {threads}": ggml.product(TYPES["Q4_K"], weights, x, threads) for threads in (1, 2, 3)}
    for first, last in PARTS:
        made[f"part {first}"] = ggml.product(TYPES["Q4_K"], weights[first:last], x)
    return made


def main(library: str, work: str, answer: str) -> None:
    from models.kernels.takeover import Kernels

    mode = ctypes.RTLD_LOCAL if work == "check alone" else ctypes.RTLD_GLOBAL
    kernels = Kernels(ctypes.CDLL(library, mode=mode)).connect(FOLDER)
    if work == "products":
        assert kernels.reason == ""
        np.savez(answer, **_products(kernels))
    elif work == "guarded":
        assert kernels.reason == ""
        np.savez(answer, **_guarded(kernels))
    elif work == "experts":
        assert kernels.reason == ""
        np.savez(answer, **_experts(kernels))
    elif work == "screens":
        assert kernels.reason == ""
        np.savez(answer, **_screens(kernels))
    elif work == "attention":
        assert kernels.reason == ""
        np.savez(answer, **_attention(kernels))
    else:
        Path(answer).write_text(json.dumps(kernels.reason))


if __name__ == "__main__":
    main(*sys.argv[1:])
