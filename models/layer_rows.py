"""Copies of the inputs of some layers, made while a pass runs: for targets whose graph does not hand them out.

The layer after the last one stands for what the last one returns. llama.cpp computes that only for tokens with logits.
llama.cpp computes a pass in parts then, each up to a layer that is wanted, and no number in it is another one. The
kernel library makes the copies; where there is none, Python does, which is called for each of a pass's tensors and so
takes about a millisecond a pass. A context has this from its beginning or not at all.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.llama.bindings import ggml_function, kernels, llama_cpp

MOST = 16
"""Most layers that can be copied."""
_NAME = b"l_out-"


class _Wanted(ctypes.Structure):
    """What is wanted, and how many rows the running pass has had; as `Wanted` in layers.cpp."""

    _fields_ = [
        ("layers", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("room", ctypes.c_int64),
        ("ids", ctypes.c_int64 * MOST),
        ("rows", ctypes.c_void_p * MOST),
        ("counts", ctypes.c_int64 * MOST),
        ("read", ctypes.c_void_p),
    ]


class LayerRows:
    """Inputs of some layers after each pass of one context, float32."""

    def __init__(self, layers: Sequence[int], width: int) -> None:
        """Take the layers, counted from 0, of which the first has no other before it, and the numbers of a row."""
        if not 0 < len(layers) <= MOST or min(layers) < 1:
            raise ValueError(f"the inputs of the layers {list(layers)} can't be copied")
        self.layers = tuple(layers)
        self._width = width
        self._wanted = _Wanted(layers=len(layers), width=width)
        # The input of a layer is what the one before it returns.
        self._wanted.ids[: len(layers)] = [layer - 1 for layer in layers]
        self._read = ggml_function(
            "ggml_backend_tensor_get", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
        )
        self._wanted.read = ctypes.cast(self._read, ctypes.c_void_p).value  # type: ignore[arg-type]
        self._kept: NDArray[np.float32] = np.empty((len(layers), 0, width), np.float32)
        self._tokens = 0
        self._with_logits: NDArray[np.intp] = np.empty(0, np.intp)
        """Places of the tokens of the last pass that have a row of logits."""
        self.callback = self._callback()

    @property
    def data(self) -> Any:
        """What llama.cpp hands to the callback."""
        return ctypes.cast(ctypes.pointer(self._wanted), ctypes.c_void_p)

    def make_room(self, tokens: int) -> None:
        """Make room for the rows of a pass over so many tokens."""
        self._kept = np.zeros((len(self.layers), tokens, self._width), np.float32)
        self._wanted.room = tokens
        for place in range(len(self.layers)):
            self._wanted.rows[place] = self._kept[place].ctypes.data

    def begin(self, wanted: NDArray[np.int8]) -> None:
        """Begin a pass over so many tokens; `wanted` is 1 for those with a row of logits, shape (tokens,)."""
        self._tokens, self._with_logits = len(wanted), np.flatnonzero(wanted)
        self._wanted.counts = (ctypes.c_int64 * MOST)()

    def rows(self, count: int, layers: Sequence[int] = ()) -> NDArray[np.float32]:
        """Return the rows of the first `count` tokens of the last pass, one layer after the other.

        Shape (count, layers * width), of some of the layers, or of all. Zeros where the model does not name what its
        layers return, and after the last layer for tokens without logits.
        """
        places = [self.layers.index(layer) for layer in layers or self.layers]
        return np.concatenate([self._of_layer(place, count) for place in places], axis=1)

    def _of_layer(self, place: int, count: int) -> NDArray[np.float32]:
        rows, found = self._kept[place], max(0, self._wanted.counts[place])
        if found == len(self._with_logits) < self._tokens:
            spread = np.zeros((count, self._width), np.float32)
            kept = self._with_logits[self._with_logits < count]
            spread[kept] = rows[: len(kept)]
            return spread
        rows[found:count] = 0
        whole: NDArray[np.float32] = rows[:count]
        return whole

    def has(self, count: int) -> bool:
        """Return whether the last pass had so many rows of each layer."""
        return all(self._wanted.counts[place] == count for place in range(len(self.layers)))

    def _callback(self) -> Any:
        kind = llama_cpp().ggml_backend_sched_eval_callback
        library: Any = kernels().library
        return kind(_in_python(self._wanted)) if library is None else ctypes.cast(library.localspec_copy_rows, kind)


def _in_python(wanted: _Wanted) -> Any:
    """Return what the kernel library's function does, as a function of Python."""
    name_of = ggml_function("ggml_get_name", ctypes.c_char_p, ctypes.c_void_p)
    size_of = ggml_function("ggml_nbytes", ctypes.c_size_t, ctypes.c_void_p)
    read = ggml_function(
        "ggml_backend_tensor_get", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
    )
    row = wanted.width * np.dtype(np.float32).itemsize
    places = {_NAME + b"%d" % wanted.ids[place]: place for place in range(wanted.layers)}

    def copy(tensor: int, is_question: bool, _: object) -> bool:
        place = places.get(name_of(tensor))
        if is_question or place is None:
            return place is not None
        count, size = wanted.counts[place], size_of(tensor)
        if count < 0 or size % row or count + size // row > wanted.room:
            wanted.counts[place] = -1
        else:
            read(tensor, wanted.rows[place] + count * row, 0, size)
            wanted.counts[place] = count + size // row
        return True

    return copy
