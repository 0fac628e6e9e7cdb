"""Weights as blocks of a type of ggml's, made by llama.cpp."""

import ctypes

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from models.kernels.ggml import GRIDS, blocks_of_bits
from models.llama.bindings import ggml_function


def packed(weights: NDArray[np.float32], kind: int) -> NDArray[np.uint8]:
    """Return the bytes of the blocks: shape (rows, bytes of a row)."""
    if kind in GRIDS:
        return blocks_of_bits(kind, weights)
    pointer, whole = ctypes.c_void_p, ctypes.c_int64
    takes = (ctypes.c_int, pointer, pointer, whole, whole, whole, pointer)
    quantize = ggml_function("ggml_quantize_chunk", ctypes.c_size_t, *takes)
    numbers, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    weights = np.ascontiguousarray(weights)
    blocks = np.empty((len(weights), weights.shape[1] // numbers * size), np.uint8)
    quantize(kind, weights.ctypes.data, blocks.ctypes.data, 0, *weights.shape, None)
    return blocks
