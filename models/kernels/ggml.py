"""Matrix products and attention computed by ggml without a model: the calls that the checks compare."""

import ctypes
from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

GRIDS = {16: 66, 17: 74, 18: 98, 21: 110, 22: 82}
"""Bytes of a block, by ggml's number, of types whose numbers stand in grids: llama.cpp takes long to quantise those."""
F32, HALVES = 0, 1
"""ggml's numbers of the types float32 and float16."""
_WHOLE = 26
"""ggml's number of the type int32."""
_MEMORY = 1 << 26
"""Bytes for the tensors of one graph."""


class _InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class Ggml:
    """The few functions of ggml that make a product of matrices."""

    def __init__(self, base: ctypes.CDLL, cpu: ctypes.CDLL) -> None:
        """Take them from both libraries; raises AttributeError for one that is missing."""
        pointer, number, whole = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
        self.init = _function(base, "ggml_init", pointer, _InitParams)
        self.free = _function(base, "ggml_free", None, pointer)
        self.tensor = _function(base, "ggml_new_tensor_3d", pointer, pointer, number, whole, whole, whole)
        self.mul_mat = _function(base, "ggml_mul_mat", pointer, pointer, pointer, pointer)
        self.mul_mat_id = _function(base, "ggml_mul_mat_id", pointer, *[pointer] * 4)
        self.graph = _function(base, "ggml_new_graph", pointer, pointer)
        self.expand = _function(base, "ggml_build_forward_expand", None, pointer, pointer)
        self.data = _function(base, "ggml_get_data", pointer, pointer)
        self.size = _function(base, "ggml_nbytes", ctypes.c_size_t, pointer)
        floats, start = ctypes.POINTER(ctypes.c_float), (whole, whole, whole)
        self.quantize = _function(
            base, "ggml_quantize_chunk", ctypes.c_size_t, number, floats, pointer, *start, pointer
        )
        self.quantize_row = row_quantizer(base)
        scales = (ctypes.c_float,) * 3
        self.attend = _function(base, "ggml_flash_attn_ext", pointer, *[pointer] * 5, *scales)
        self.compute = _function(cpu, "ggml_graph_compute_with_ctx", number, pointer, pointer, number)
        nothing = np.empty(0, np.float32)
        self._packed: tuple[int, NDArray[np.float32], NDArray[np.uint8]] = F32, nothing, nothing.view(np.uint8)

    def product(
        self, kind: int, weights: NDArray[np.float32], x: NDArray[np.float32], threads: int = 1
    ) -> NDArray[np.float32]:
        """Return x times the weights, which are quantised first: shape (columns, rows)."""
        context = self.init(_InitParams(_MEMORY, None, False))
        try:
            left, right = self._filled(context, kind, weights), self._filled(context, F32, x)
            return self._result(context, self.mul_mat(context, left, right), (len(x), len(weights)), threads)
        finally:
            self.free(context)

    def experts(
        self,
        kind: int,
        weights: NDArray[np.float32],
        x: NDArray[np.float32],
        chosen: NDArray[np.int32],
        threads: int = 1,
    ) -> NDArray[np.float32]:
        """Return x times the weights of those experts that each token has chosen: shape (tokens, choices, rows).

        `weights` have shape (experts, rows, length), x (tokens, choices or 1, length), `chosen` (tokens, choices).
        """
        context = self.init(_InitParams(_MEMORY, None, False))
        try:
            left, right = self._filled(context, kind, weights), self._filled(context, F32, x)
            ids = self._given(context, _WHOLE, np.ascontiguousarray(chosen, np.int32))
            out = self.mul_mat_id(context, left, right, ids)
            return self._result(context, out, (*chosen.shape, weights.shape[1]), threads)
        finally:
            self.free(context)

    def attention(
        self,
        kinds: tuple[int, int],
        floats: Sequence[NDArray[np.float32]],
        mask: NDArray[np.float16],
        threads: int = 1,
    ) -> NDArray[np.float32]:
        """Return what queries, shape (heads, tokens, size), gather of values by keys, both (groups, cells, size).

        `floats` are queries, keys and values; keys and values are stored in two `kinds`. `mask` has shape (tokens,
        cells): 0, or minus infinity where a token does not attend. The result has shape (tokens, heads, size).
        """
        context = self.init(_InitParams(_MEMORY, None, False))
        try:
            given = zip((F32, *kinds), floats, strict=True)
            q, k, v = (self._filled(context, kind, values) for kind, values in given)
            allowed = self._given(context, HALVES, np.ascontiguousarray(mask))
            heads, tokens, size = floats[0].shape
            out = self.attend(context, q, k, v, allowed, 1 / sqrt(size), 0.0, 0.0)
            return self._result(context, out, (tokens, heads, floats[2].shape[2]), threads)
        finally:
            self.free(context)

    def _filled(self, context: int, kind: int, values: NDArray[np.float32]) -> int:
        """Return a tensor with these values, of up to three dimensions, quantised."""
        if kind == F32:
            return self._given(context, kind, np.ascontiguousarray(values))
        shape = (1,) * (3 - values.ndim) + values.shape
        tensor: int = self.tensor(context, kind, *shape[::-1])
        # Some types are quantised by trying much, and it is the same weights again and again.
        if self._packed[0] != kind or self._packed[1] is not values:
            self._packed = kind, values, self._quantised(kind, values, self.size(tensor))
        ctypes.memmove(self.data(tensor), self._packed[2].ctypes.data, self._packed[2].nbytes)
        return tensor

    def _quantised(self, kind: int, values: NDArray[np.float32], size: int) -> NDArray[np.uint8]:
        if kind in GRIDS:
            return blocks_of_bits(kind, values)
        blocks, values = np.empty(size, np.uint8), np.ascontiguousarray(values)
        floats = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        self.quantize(kind, floats, blocks.ctypes.data, 0, values.size // values.shape[-1], values.shape[-1], None)
        return blocks

    def _given(self, context: int, kind: int, values: NDArray[Any]) -> int:
        """Return a tensor with the bytes of an array, of up to three dimensions."""
        shape = (1,) * (3 - values.ndim) + values.shape
        tensor: int = self.tensor(context, kind, *shape[::-1])
        ctypes.memmove(self.data(tensor), values.ctypes.data, values.nbytes)
        return tensor

    def _result(self, context: int, out: int, shape: tuple[int, ...], threads: int) -> NDArray[np.float32]:
        graph = self.graph(context)
        self.expand(graph, out)
        self.compute(context, graph, threads)
        result = np.empty(shape, np.float32)
        ctypes.memmove(result.ctypes.data, self.data(out), result.nbytes)
        return result


def blocks_of_bits(kind: int, values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return blocks of one of `GRIDS`, made of the last bits of 256 numbers each: any bits are some weights.

    Shape (rows, bytes), where `values` has rows.
    """
    numbers = np.ascontiguousarray(values).reshape(-1, 256)
    blocks = 255 - numbers.view(np.uint8)[:, ::4][:, : GRIDS[kind]]
    # First comes the factor.
    blocks[:, :2] = numbers[:, 1:2].astype(np.float16).view(np.uint8)
    return blocks.reshape(values.size // values.shape[-1], -1)


def row_quantizer(library: ctypes.CDLL) -> Any:
    """Return the function of a library that makes blocks of activations: of floats, blocks and the number of floats."""
    return _function(library, "quantize_row_q8_K_ref", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def _function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function
