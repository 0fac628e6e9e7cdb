"""Showing that llama.cpp's products of matrices come here, and come out right: by having it make some.

What is compared goes the whole way that a model's does, from ggml's graph to the result. Weights and activations are
random; llama.cpp's own kernels are the measure.
"""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.errors import LocalspecError

_TYPES = {12: "Q4_K", 13: "Q5_K", 14: "Q6_K"}
"""ggml's numbers of the types that the kernels read."""
_F32 = 0
_ROWS, _LENGTH = 37, 512
_COLUMNS = (1, 3, 11)
"""Widths of the passes: kernels of one column, of several, and of more than are taken at once."""
_TOLERANCE = 1e-4
"""Of the largest result: sums of floats in another order differ by less."""
_MEMORY = 1 << 24
_SEED = 7


class _InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class Ggml:
    """The few functions of ggml that make a product of matrices."""

    def __init__(self, base: ctypes.CDLL, cpu: ctypes.CDLL) -> None:
        """Take them from both libraries; raises AttributeError for one that is missing."""
        pointer, number, whole = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
        self.init = _function(base, "ggml_init", pointer, _InitParams)
        self.free = _function(base, "ggml_free", None, pointer)
        self.tensor = _function(base, "ggml_new_tensor_2d", pointer, pointer, number, whole, whole)
        self.mul_mat = _function(base, "ggml_mul_mat", pointer, pointer, pointer, pointer)
        self.graph = _function(base, "ggml_new_graph", pointer, pointer)
        self.expand = _function(base, "ggml_build_forward_expand", None, pointer, pointer)
        self.data = _function(base, "ggml_get_data", pointer, pointer)
        floats, start = ctypes.POINTER(ctypes.c_float), (whole, whole, whole)
        self.quantize = _function(
            base, "ggml_quantize_chunk", ctypes.c_size_t, number, floats, pointer, *start, pointer
        )
        self.compute = _function(cpu, "ggml_graph_compute_with_ctx", number, pointer, pointer, number)

    def product(
        self, kind: int, weights: NDArray[np.float32], x: NDArray[np.float32], threads: int = 1
    ) -> NDArray[np.float32]:
        """Return x times the weights, which are quantised first: shape (columns, rows)."""
        context = self.init(_InitParams(_MEMORY, None, False))
        try:
            (rows, length), columns = weights.shape, len(x)
            left, right = self.tensor(context, kind, length, rows), self.tensor(context, _F32, length, columns)
            floats = weights.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            self.quantize(kind, floats, self.data(left), 0, rows, length, None)
            ctypes.memmove(self.data(right), x.ctypes.data, x.nbytes)
            out, graph = self.mul_mat(context, left, right), self.graph(context)
            self.expand(graph, out)
            self.compute(context, graph, threads)
            result = np.empty((columns, rows), np.float32)
            ctypes.memmove(result.ctypes.data, self.data(out), result.nbytes)
            return result
        finally:
            self.free(context)


def check_products(ggml: Ggml, kernels: ctypes.CDLL) -> None:
    """Compare products with and without the kernels, which stay enabled; raises LocalspecError where they differ."""
    kernels.localspec_products.restype = ctypes.c_int64
    draw = np.random.default_rng(_SEED)
    weights = draw.standard_normal((_ROWS, _LENGTH)).astype(np.float32)
    x = draw.standard_normal((max(_COLUMNS), _LENGTH)).astype(np.float32)
    for kind, name in _TYPES.items():
        kernels.localspec_enable(ctypes.c_bool(False))
        wanted = ggml.product(kind, weights, x)
        kernels.localspec_enable(ctypes.c_bool(True))
        before = kernels.localspec_products()
        seen = [ggml.product(kind, weights, x[:columns]) for columns in _COLUMNS]
        if kernels.localspec_products() != before + len(seen):
            raise LocalspecError("its products of matrices do not come to the kernels.")
        _compare(name, wanted, seen)


def _compare(name: str, wanted: NDArray[np.float32], seen: list[NDArray[np.float32]]) -> None:
    widest = seen[-1]
    if not np.allclose(widest, wanted, rtol=0, atol=_TOLERANCE * np.abs(wanted).max()):
        raise LocalspecError(f"products of {name} come out wrong, by {np.abs(widest - wanted).max():.2g}.")
    for narrow in seen[:-1]:
        if not np.array_equal(narrow, widest[: len(narrow)]):
            raise LocalspecError(f"products of {name} depend on how many are made together.")


def _function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function
