"""Counter-based noise: a pure function of (seed, position, token id), so target and draft model always use equal noise.

The hash is SplitMix64 (Steele, Lea and Flood 2014): a stream state per (seed, position), advanced by the token id.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_STEP = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_FACTOR_1, _FACTOR_2 = np.uint64(_MIX_1), np.uint64(_MIX_2)
_NEXT, _FACTOR = np.uint64(1), np.uint64(_STEP)
_LARGEST = 1 - 2.0**-53
_MASK = (1 << 64) - 1


def gumbel(seed: int, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return standard Gumbel noise for each token id, shape of `ids`."""
    return _gumbel_of(_hash(seed, position, ids))


def strongest_gumbel(seed: int, position: int, size: int) -> float:
    """Return the largest noise among the ids below `size`, with one logarithm instead of one an id."""
    return float(_gumbel_of(_mixed(_steps_below(size) + _stream(seed, position)).min(keepdims=True))[0])


def uniform(seed: int, position: int, turn: int) -> float:
    """Return a number that is anywhere in [0, 1) with equal chance, another one for each turn at a position."""
    return min(float(_hash(seed, position, np.array([turn]))[0]) * 2.0**-64, _LARGEST)


def stream(seed: int, *labels: int) -> int:
    """Return the seed of other noise, independent of this seed's and of that under other labels."""
    for label in labels:
        seed = _mix((_mix(seed & _MASK) ^ ((label + 1) * _MIX_2)) & _MASK)
    return seed


def _gumbel_of(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    # Small hashes give large noise, and floats are finest near 0: the far tail, where winners live, keeps its
    # resolution.
    uniform = (hashes.astype(np.float64) + 0.5) * 2.0**-64
    # A hash at the very top rounds to 1, whose noise would be minus infinity.
    exponential = -np.log1p(-np.minimum(uniform, _LARGEST))
    return -np.log(exponential)


def _hash(seed: int, position: int, ids: NDArray[np.int64]) -> NDArray[np.uint64]:
    return _mixed(_steps(ids) + _stream(seed, position))


def _stream(seed: int, position: int) -> np.uint64:
    return np.uint64(_mix((_mix(seed & _MASK) + position * _STEP) & _MASK))


def _steps(ids: NDArray[np.int64]) -> NDArray[np.uint64]:
    return (ids.astype(np.uint64) + _NEXT) * _FACTOR


@lru_cache(maxsize=4)
def _steps_below(size: int) -> NDArray[np.uint64]:
    return _steps(np.arange(size))


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply SplitMix64's finaliser in place."""
    bits ^= bits >> _SHIFT_1
    bits *= _FACTOR_1
    bits ^= bits >> _SHIFT_2
    bits *= _FACTOR_2
    bits ^= bits >> _SHIFT_3
    return bits


def _mix(bits: int) -> int:
    bits = (bits + _STEP) & _MASK
    bits = ((bits ^ (bits >> 30)) * _MIX_1) & _MASK
    bits = ((bits ^ (bits >> 27)) * _MIX_2) & _MASK
    return bits ^ (bits >> 31)
