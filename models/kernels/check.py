"""Check before use that llama.cpp's matrix products and attention arrive in the kernels, with right and exact results.

What is compared goes the whole way that a model's does, from ggml's graph to the result. Weights and activations are
random; llama.cpp's own kernels are the measure.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.errors import LocalspecError
from models.kernels.check_screen import check_screen
from models.kernels.ggml import F32, GRIDS, HALVES, Ggml, row_quantizer

TYPES = {
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    8: "Q8_0",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    30: "BF16",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
}
"""The types that kernels may read, by ggml's numbers."""
LONG = frozenset({"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "TQ1_0", "TQ2_0", *(TYPES[kind] for kind in GRIDS)})
"""Those whose blocks have 256 numbers."""
DENSE = frozenset({"F16", "BF16"})
"""Those that are not packed: experts in them are left to llama.cpp."""
_ROWS, _LENGTH, _SHORT_BLOCKS = 18, 4096, 96
"""Rows of `_LENGTH` numbers, and of fewer for types whose blocks are so short that a row may end in mid of eight."""
_IN_STRIPS, _STRIPS_AND_ROWS = frozenset({"Q3_K", "Q4_K", "Q5_K", "Q6_K"}), 34
"""Types of which several times 16 rows may be taken together, as strips.h does, and rows to see that it is right."""
_EXPERTS, _EXPERT_ROWS, _EXPERT_LENGTH = 2, 7, 256
_COLUMNS = (1, 1, 3, 19)
"""Widths of the passes: kernels of one column (there may be two), of several, and of more than are taken at once."""
_TOLERANCE = 1e-4
"""Of the largest result: sums of floats in another order differ by less."""
_BYTES, _BRAIN_FLOATS = 8, 30
_CACHES = {(_BYTES, HALVES): "q8_0 and f16", (_BYTES, _BRAIN_FLOATS): "q8_0 and bf16", (HALVES, HALVES): "f16"}
"""Types of keys and values that attention reads."""
_HEADS, _GROUPS, _SIZE, _CELLS = 6, 2, 64, 300
_TOKENS = (1, 3, 7)
_ATTENTION_TOLERANCE = 0.02
"""Of the largest result: llama.cpp's own rounds queries to eight bits, and sums to eleven."""
_BLOCK = 292
"""Bytes of a block of 256 activations."""
_SEED = 7


Way = Callable[[], NDArray[np.float32]]


def readable(kernels: ctypes.CDLL) -> list[int]:
    """Return ggml's numbers of the types that these kernels read."""
    kernels.localspec_reads.restype = ctypes.c_bool
    return [kind for kind in TYPES if kernels.localspec_reads(kind)]


def check_kernels(ggml: Ggml, kernels: ctypes.CDLL) -> None:
    """Compare results with and without the kernels, which stay enabled; raises LocalspecError where they differ."""
    kernels.localspec_operations.restype = ctypes.c_int64
    _check_activations(ggml, kernels)
    _check_products(ggml, kernels)
    _check_experts(ggml, kernels)
    _check_attention(ggml, kernels)
    check_screen(ggml, kernels)


def _check_activations(ggml: Ggml, kernels: ctypes.CDLL) -> None:
    """Compare blocks of activations byte by byte: of random numbers, of equal ones with both signs, and of nothing."""
    x = np.random.default_rng(_SEED).standard_normal((6, 256)).astype(np.float32)
    x[1], x[2], x[3], x[4] = np.rint(x[1]), np.resize([1, -1], 256), 0, x[4] * np.float32(1e-20)
    kernels.localspec_enable(ctypes.c_bool(True))
    theirs, ours = (_blocks(quantize, x) for quantize in (ggml.quantize_row, row_quantizer(kernels)))
    if not np.array_equal(theirs, ours):
        raise LocalspecError("blocks of activations come out otherwise.")


def _blocks(quantize: Any, x: NDArray[np.float32]) -> NDArray[np.uint8]:
    # Of a block of zeros llama.cpp leaves the sums as they are.
    blocks = np.zeros((x.size // 256, _BLOCK), np.uint8)
    quantize(x.ctypes.data, blocks.ctypes.data, x.size)
    return blocks


def _check_products(ggml: Ggml, kernels: ctypes.CDLL) -> None:
    draw = np.random.default_rng(_SEED)
    all_weights = draw.standard_normal((_STRIPS_AND_ROWS, _LENGTH)).astype(np.float32)
    x = draw.standard_normal((max(_COLUMNS), _LENGTH)).astype(np.float32)
    for kind in (*readable(kernels), F32):
        name = TYPES.get(kind, "F32")
        length = _LENGTH if name in LONG else _LENGTH - _SHORT_BLOCKS
        weights = np.ascontiguousarray(all_weights[: _STRIPS_AND_ROWS if name in _IN_STRIPS else _ROWS, :length])
        ways: list[Way] = [partial(ggml.product, kind, weights, x[:columns, :length]) for columns in _COLUMNS]
        _compare(f"products of {name}", kernels, ways, _TOLERANCE)


def _check_experts(ggml: Ggml, kernels: ctypes.CDLL) -> None:
    draw, tokens = np.random.default_rng(_SEED), max(_COLUMNS)
    weights = draw.standard_normal((_EXPERTS, _EXPERT_ROWS, _EXPERT_LENGTH)).astype(np.float32)
    x = draw.standard_normal((tokens, 1, _EXPERT_LENGTH)).astype(np.float32)
    # Each token wants both, by turns this one first or that one.
    chosen = (np.arange(tokens)[:, None] + np.arange(_EXPERTS)) % _EXPERTS
    for kind in (kind for kind in readable(kernels) if TYPES[kind] not in DENSE):
        ways: list[Way] = [partial(ggml.experts, kind, weights, x[:n], chosen[:n]) for n in _COLUMNS]
        _compare(f"experts of {TYPES[kind]}", kernels, ways, _TOLERANCE, _EXPERTS)


def _check_attention(ggml: Ggml, kernels: ctypes.CDLL) -> None:
    draw, tokens = np.random.default_rng(_SEED), max(_TOKENS)
    shapes = (_HEADS, tokens, _SIZE), (_GROUPS, _CELLS, _SIZE), (_GROUPS, _CELLS, _SIZE)
    q, k, v = (draw.standard_normal(shape).astype(np.float32) for shape in shapes)
    # As in a text: each token attends to those before it, and some cells are empty.
    seen = np.arange(_CELLS) < _CELLS - 20 + np.arange(tokens)[:, None]
    mask = np.where(seen, 0, -np.inf).astype(np.float16)
    for kinds, name in _CACHES.items():
        ways: list[Way] = [partial(ggml.attention, kinds, (q[:, :n], k, v), mask[:n]) for n in _TOKENS]
        _compare(f"attention to {name}", kernels, ways, _ATTENTION_TOLERANCE)


def _compare(name: str, kernels: ctypes.CDLL, ways: Sequence[Way], tolerance: float, calls: int = 1) -> None:
    """Compare the last way's result with llama.cpp's, and its first rows with the others'; each is so many calls."""
    kernels.localspec_enable(ctypes.c_bool(False))
    wanted = ways[-1]()
    kernels.localspec_enable(ctypes.c_bool(True))
    before = kernels.localspec_operations()
    *narrow, widest = [way() for way in ways]
    if kernels.localspec_operations() != before + calls * len(ways):
        raise LocalspecError(f"its {name} do not come to the kernels.")
    if not np.allclose(widest, wanted, rtol=0, atol=tolerance * np.abs(wanted).max()):
        raise LocalspecError(f"{name} come out wrong, by {np.abs(widest - wanted).max():.2g}.")
    if not all(np.array_equal(rows, widest[: len(rows)]) for rows in narrow):
        raise LocalspecError(f"{name} depend on how many are made together.")
