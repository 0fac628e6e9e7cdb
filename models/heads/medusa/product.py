"""Products with one matrix, as it is in a file: computed by ggml, and so by localspec's kernels where they take part.

llama.cpp computes whole models alone, and Medusa heads are none that it knows. A product is a graph of one node.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.errors import LocalspecError
from models.heads.medusa.stored import StoredMatrix
from models.llama.bindings import ggml_function, kernels

_FLOATS = 0
"""ggml's number of the type float32."""
_ALIGNED = 64
"""Bytes of which the address of ggml's memory is a multiple."""
_ROOM = 2 << 20
"""Bytes for a graph of one node, beside the numbers that go in and come out."""
_ALONE = 4 << 20
"""Bytes of a matrix up to which one thread is as fast as several, which have to be started."""


class _InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


_POINTER, _WHOLE, _SIZE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t
_CALLS: dict[str, tuple[Any, ...]] = {
    "ggml_init": (_POINTER, _InitParams),
    "ggml_free": (None, _POINTER),
    "ggml_new_tensor_2d": (_POINTER, _POINTER, ctypes.c_int, _WHOLE, _WHOLE),
    "ggml_view_2d": (_POINTER, _POINTER, _POINTER, _WHOLE, _WHOLE, _SIZE, _SIZE),
    "ggml_get_data": (_POINTER, _POINTER),
    "ggml_mul_mat": (_POINTER, _POINTER, _POINTER, _POINTER),
    "ggml_new_graph": (_POINTER, _POINTER),
    "ggml_build_forward_expand": (None, _POINTER, _POINTER),
    "ggml_graph_compute_with_ctx": (ctypes.c_int, _POINTER, _POINTER, ctypes.c_int),
}
"""Functions of ggml: what each returns, and takes."""


class Product:
    """A matrix in memory, to be multiplied with a few columns. Belongs to one thread; freed by `close`."""

    def __init__(self, matrix: StoredMatrix, most: int) -> None:
        """Copy a matrix, to be multiplied with at most `most` columns; raises LocalspecError for another engine."""
        # Products go through the kernels once these have been connected.
        kernels()
        self.rows, self._length, self._most = len(matrix.blocks), matrix.length, most
        self._bytes, self._row_bytes = matrix.blocks.nbytes, matrix.blocks.shape[1]
        self._scratch = _aligned(_ROOM + 4 * most * (self.rows + 4 * matrix.length))
        self._context: Any = _call("ggml_init")(_InitParams(self._bytes + 4096, None, False))
        self._matrix = _call("ggml_new_tensor_2d")(self._context, matrix.code, matrix.length, self.rows)
        ctypes.memmove(_call("ggml_get_data")(self._matrix), matrix.blocks.ctypes.data, self._bytes)

    def times(self, columns: NDArray[np.float32], rows: int = 0, threads: int = 1) -> NDArray[np.float32]:
        """Return the first `rows` of the matrix, or all for 0, times each column; shape (columns, rows)."""
        count, rows = len(columns), rows or self.rows
        if not (1 <= count <= self._most and rows <= self.rows and columns.shape[1] == self._length):
            raise ValueError(f"{columns.shape} columns for a matrix of {self.rows} rows of {self._length} numbers")
        columns = np.ascontiguousarray(columns, np.float32)
        context = _call("ggml_init")(_InitParams(self._scratch.nbytes, self._scratch.ctypes.data, False))
        try:
            right = _call("ggml_new_tensor_2d")(context, _FLOATS, self._length, count)
            ctypes.memmove(_call("ggml_get_data")(right), columns.ctypes.data, columns.nbytes)
            left = self._matrix
            if rows < self.rows:
                left = _call("ggml_view_2d")(context, left, self._length, rows, self._row_bytes, 0)
            out, graph = _call("ggml_mul_mat")(context, left, right), _call("ggml_new_graph")(context)
            _call("ggml_build_forward_expand")(graph, out)
            used = threads if self._bytes > _ALONE else 1
            if code := _call("ggml_graph_compute_with_ctx")(context, graph, used):
                raise LocalspecError(f"The engine could not compute a draft (code {code}).")
            found = np.empty((count, rows), np.float32)
            ctypes.memmove(found.ctypes.data, _call("ggml_get_data")(out), found.nbytes)
            return found
        finally:
            _call("ggml_free")(context)

    def close(self) -> None:
        """Free the matrix; calling it twice is fine."""
        if self._context is not None:
            _call("ggml_free")(self._context)
            self._context = None


@cache
def _call(name: str) -> Callable[..., Any]:
    result, *arguments = _CALLS[name]
    return ggml_function(name, result, *arguments)


def _aligned(size: int) -> NDArray[np.uint8]:
    whole = np.empty(size + _ALIGNED, np.uint8)
    start = -whole.ctypes.data % _ALIGNED
    return whole[start : start + size]
