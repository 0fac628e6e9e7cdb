"""Check that a screened product holds the best rows, bit by bit those of the whole product."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from models.errors import LocalspecError
from models.kernels.ggml import Ggml

MEMBERS, BEST = 128, 2
"""Rows of a group, and how many of them are worked out; as in screen.cpp."""
_GROUPS, _REST, _LENGTH = 2, 5, 256
_COLUMNS, _THREADS = 2, 2
_KIND = 2
"""Q4_0: the type in which drafts are copied."""
_SEED = 11


@contextmanager
def screening(kernels: ctypes.CDLL, rows: int, length: int) -> Iterator[None]:
    """Screen products with matrices of so many rows of so many numbers."""
    kernels.localspec_new_screen.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(kernels.localspec_new_screen(ctypes.c_int64(rows), ctypes.c_int64(length)))
    kernels.localspec_screen(handle)
    try:
        yield
    finally:
        kernels.localspec_screen(None)
        kernels.localspec_free_screen(handle)


def check_screen(ggml: Ggml, kernels: ctypes.CDLL) -> None:
    """Compare a screened product with the whole one; raises LocalspecError where it is not as it should be."""
    rows, draw = _GROUPS * MEMBERS + _REST, np.random.default_rng(_SEED)
    x = draw.standard_normal((_COLUMNS, _LENGTH)).astype(np.float32)
    weights = draw.standard_normal((rows, _LENGTH)).astype(np.float32)
    # Two rows of one group that stand out, for each column others.
    best = np.array([[10, 12], [21, 23]])
    weights[best] = x[:, None]
    whole = ggml.product(_KIND, weights, x, _THREADS)
    with screening(kernels, rows, _LENGTH):
        seen = ggml.product(_KIND, weights, x, _THREADS)
    kept = np.isfinite(seen)
    if not np.array_equal(seen, np.where(kept, whole, -np.inf)):
        raise LocalspecError("screened products come out otherwise.")
    if not (np.take_along_axis(kept, best, 1).all() and (kept.sum(axis=1) == _GROUPS * BEST + _REST).all()):
        raise LocalspecError("screened products lack the rows that matter.")
