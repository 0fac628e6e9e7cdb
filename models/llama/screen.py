"""Screening of a draft model's output matrix: logits are minus infinity for tokens that would hardly be drafted.

The matrix has a row for each token of the vocabulary, in a small model a quarter of all that a draft token reads. The
kernels read the signs of its weights first, a bit for each, and compute one row in 64. A target's rows are never
screened; a draft model's may lack a token, since the target checks every draft token. See `models/kernels/screen.cpp`.
"""

import ctypes
from functools import cache
from typing import Any

from models.llama.bindings import ggml_function, kernels

_FEWEST = 8192
"""Tokens of a vocabulary from which on most rows are worth not reading."""
_OUTPUT = rb"^(output|token_embd)\.weight$"
"""The output matrix, by whichever name: many small models have none but that of what goes in."""
_BUFFER_TYPE = ctypes.c_void_p * 8
"""A ggml_backend_buffer_type: six functions, a device and a context."""


class Screen:
    """Screen of an output matrix, active while entered; the signs are taken at the first pass, at load."""

    def __init__(self, handle: int | None) -> None:
        """Take what the kernels call the screen; None: nothing is screened."""
        self._handle = handle

    @property
    def is_open(self) -> bool:
        """True if anything is screened."""
        return self._handle is not None

    def __enter__(self) -> None:
        """Screen what is decoded from now on."""
        if self._handle is not None:
            _call("localspec_screen", self._handle)

    def __exit__(self, *_: object) -> None:
        """Work out all rows again."""
        if self._handle is not None:
            _call("localspec_screen", None)

    def close(self) -> None:
        """Free it, and screen nothing from now on; calling it twice is fine."""
        if self._handle is not None:
            _call("localspec_free_screen", self._handle)
            self._handle = None


def open_screen(rows: int, length: int) -> Screen:
    """Return a screen for an output matrix of so many tokens and numbers; an idle one where it can't help."""
    library: Any = kernels().library
    if library is None or rows < _FEWEST:
        return Screen(None)
    library.localspec_new_screen.restype = ctypes.c_void_p
    return Screen(library.localspec_new_screen(ctypes.c_int64(rows), ctypes.c_int64(length)))


def _call(name: str, handle: int | None) -> None:
    getattr(kernels().library, name)(ctypes.c_void_p(handle))


class _Override(ctypes.Structure):
    """A llama_model_tensor_buft_override."""

    _fields_ = [("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p)]


class _Overrides(ctypes.Structure):
    """A list of them, which ends with an empty one, and the type of buffer that the first names."""

    _fields_ = [("all", _Override * 2), ("buffer_type", _BUFFER_TYPE)]


@cache
def output_as_it_is() -> ctypes.Structure:
    """Return what has a load keep the output matrix as it is in the file: rearranged, our kernels would not get it.

    For its usual type of buffer llama.cpp would take one that rearranges. A copy of that type is another type, which
    does the same.
    """
    usual = ggml_function("ggml_backend_cpu_buffer_type", ctypes.c_void_p)()
    made = _Overrides(buffer_type=_BUFFER_TYPE.from_buffer_copy(_BUFFER_TYPE.from_address(usual)))
    made.all[0] = _Override(_OUTPUT, ctypes.addressof(made) + _Overrides.buffer_type.offset)
    return made
