"""Workers, other programs that hold layers of a model: llama.cpp's RPC back end, as its library has it.

A worker that can't be reached, or is lost, ends the process that talks to it: `models.llama.remote` keeps the rest of
the program apart from that.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

from models.errors import LocalspecError
from models.llama.bindings import VERSION, ggml_function
from models.llama.devices import WORKERS
from models.system.installing import rebuild_command

_PROCESSOR, _GPU, _INTEGRATED = 0, 1, 2
"""llama.cpp's numbers for kinds of devices."""


def has_workers() -> bool:
    """Return whether the engine was built with the back end for workers."""
    return _back_end() is not None


def require_workers() -> None:
    """Raise LocalspecError for an engine that was built without workers."""
    if not has_workers():
        raise LocalspecError(
            "The engine, llama-cpp-python, was built without workers on other machines.",
            hint=f"Build it with GGML_RPC=ON: {rebuild_command(VERSION)}",
        )


@cache
def worker_devices(workers: tuple[str, ...]) -> ctypes.Array[ctypes.c_void_p]:
    """Connect to workers, as HOST:PORT; return their devices, and an empty entry after them.

    Raises LocalspecError for an engine without workers, and for a worker that offers none. One that can't be reached
    ends this process.
    """
    require_workers()
    add = _function("ggml_backend_rpc_add_server", ctypes.c_void_p, ctypes.c_char_p)
    register = ggml_function("ggml_backend_register", None, ctypes.c_void_p)
    found: list[int] = []
    for worker in workers:
        own = add(worker.encode())
        if not own:
            raise LocalspecError(f"The worker {worker} offers no device.", hint="Start it again: localspec worker")
        register(own)
        found += _devices_of(own)
    return (ctypes.c_void_p * (len(found) + 1))(*found)


def serve(endpoint: str, threads: int) -> None:
    """Serve this machine's devices to one program at a time, until the process ends; returns for a port that is taken.

    GPUs where there are any, else the processor.
    """
    require_workers()
    start = _function(
        "ggml_backend_rpc_start_server",
        None,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_void_p),
    )
    devices = _local_devices()
    start(endpoint.encode(), None, threads, len(devices), (ctypes.c_void_p * len(devices))(*devices))


def _local_devices() -> list[int]:
    get = ggml_function("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
    kind = ggml_function("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)
    every = [get(number) for number in range(ggml_function("ggml_backend_dev_count", ctypes.c_size_t)())]
    by_kind = ([device for device in every if kind(device) == wanted] for wanted in (_GPU, _INTEGRATED, _PROCESSOR))
    return next(found for found in by_kind if found)


def _devices_of(own: int) -> list[int]:
    count = ggml_function("ggml_backend_reg_dev_count", ctypes.c_size_t, ctypes.c_void_p)(own)
    get = ggml_function("ggml_backend_reg_dev_get", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    return [get(own, number) for number in range(count)]


def _back_end() -> int | None:
    found: int | None = ggml_function("ggml_backend_reg_by_name", ctypes.c_void_p, ctypes.c_char_p)(WORKERS.encode())
    return found


def _function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of the back end, which is asked for it: its library may not be searched by name."""
    find = ggml_function("ggml_backend_reg_get_proc_address", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
    address = find(_back_end(), name.encode())
    return cast(Callable[..., Any], ctypes.CFUNCTYPE(result, *arguments)(address))


def names_of(workers: Sequence[str]) -> str:
    """Return workers as they stand in a sentence."""
    return f"the worker {workers[0]}" if len(workers) == 1 else f"the workers {', '.join(workers)}"
