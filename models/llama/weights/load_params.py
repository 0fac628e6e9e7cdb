"""Placement of weights as llama.cpp takes it at load: arrays whose addresses it keeps."""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from models.errors import UsageError
from models.llama.bindings import ggml_function, llama_cpp
from models.llama.weights.placement import Override, Placement
from models.llama.weights.workers import worker_devices

_GPU_KINDS = (1, 2)
"""llama.cpp's numbers for the kinds of devices that take layers: GPUs, and integrated ones."""


class _Override(ctypes.Structure):
    """A llama_model_tensor_buft_override."""

    _fields_ = [("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p)]


def apply_placement(params: Any, placement: Placement) -> None:
    """Enter a placement into the parameters of a load; raises UsageError for an unknown device or a wrong split.

    llama.cpp reads the overrides while it loads, and copies the split.
    """
    if placement.rules:
        params.tensor_buft_overrides = ctypes.addressof(_overrides(placement.rules))
    if placement.workers:
        params.devices = ctypes.addressof(worker_devices(placement.workers))
    if placement.split:
        workers = worker_devices(placement.workers) if placement.workers else ()
        check_split(placement.split, len(workers) - 1 if workers else _gpu_count())
        most = int(llama_cpp().llama_max_devices())
        params.tensor_split = (ctypes.c_float * most)(*placement.split)


def check_devices(rules: Sequence[Override]) -> None:
    """Raise UsageError for an override that names an unknown device, with the known ones."""
    known = _buffer_types()
    for rule in rules:
        if rule.device not in known:
            raise UsageError(
                f"-ot {rule}: there is no device '{rule.device}'.",
                cause=f"Devices of this build and machine: {', '.join(known)}.",
                hint="Name one of these after the last =.",
            )


def check_split(split: Sequence[float], devices: int) -> None:
    """Raise UsageError for a split with more shares than there are devices that take layers."""
    if len(split) > max(1, devices):
        there = "no GPU" if devices == 0 else f"{devices} that take layers"
        raise UsageError(
            f"--tensor-split has {len(split)} shares, and there is {there}.",
            hint="Give one share for each GPU or worker, such as 3,1.",
        )


@cache
def _overrides(rules: tuple[Override, ...]) -> ctypes.Array[_Override]:
    """Return llama.cpp's list of overrides, which ends with an empty one; it lives as long as this process."""
    check_devices(rules)
    types = _buffer_types()
    entries = [_Override(rule.pattern.encode(), types[rule.device]) for rule in rules]
    return (_Override * (len(entries) + 1))(*entries)


def _buffer_types() -> dict[str, int]:
    """Return the usual type of buffer of each device, by the device's name and by its own."""
    found: dict[str, int] = {}
    get = ggml_function("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
    buffer_type = ggml_function("ggml_backend_dev_buffer_type", ctypes.c_void_p, ctypes.c_void_p)
    for number in range(ggml_function("ggml_backend_dev_count", ctypes.c_size_t)()):
        device = get(number)
        if kind := buffer_type(device):
            found.setdefault(_name("ggml_backend_dev_name", device), kind)
            found.setdefault(_name("ggml_backend_buft_name", kind), kind)
    return found


def _gpu_count() -> int:
    get = ggml_function("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
    kind = ggml_function("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)
    count = ggml_function("ggml_backend_dev_count", ctypes.c_size_t)()
    return sum(kind(get(number)) in _GPU_KINDS for number in range(count))


def _name(function: str, handle: int) -> str:
    text: bytes | None = ggml_function(function, ctypes.c_char_p, ctypes.c_void_p)(handle)
    return (text or b"").decode("utf-8", errors="replace")
