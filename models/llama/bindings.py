"""Import of llama.cpp's bindings: the matching library or none, its log in ours, loaded only when first needed."""

import ctypes
import logging
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from models.errors import LocalspecError
from models.kernels.compiling import OFF
from models.kernels.takeover import Kernels, open_kernels
from models.system.installing import rebuild_command

VERSION = "0.3.36"
"""The one release of llama-cpp-python whose structs this code was checked against."""
NO_BACKTRACE = "GGML_NO_BACKTRACE"
"""The variable that keeps llama.cpp from starting a debugger when an assertion fails."""
_STRUCT_SIZES = {
    "llama_model_params": 80,
    "llama_context_params": 160,
    "llama_batch": 56,
    "llama_model_quantize_params": 64,
}
_SPINS = 5_000
"""Looks that a thread takes before it lets another program have its core, a tenth of a millisecond.

GNU's default is 300,000. Where other programs hold the cores, as a build does, all of that is waited at each of some
hundred barriers of a pass, for a thread that waits for that very core: passes of a 0.5B took up to 3.4 s on two cores,
with this up to .16 s. On a quiet machine they take as long with 1,000, 5,000 and 20,000, and half as long again with
200 (0.5B, two cores of a Zen 4).
"""
_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_CONTINUES = 5
_log = logging.getLogger("localspec.llama_cpp")
# Without a handler Python would print warnings on stderr, across whatever screen is drawn there.
_log.addHandler(logging.NullHandler())
_recent_errors: deque[str] = deque(maxlen=8)


@cache
def llama_cpp() -> ModuleType:
    """Return the low-level bindings, checked, with llama.cpp's log redirected and its back ends started."""
    # Once its library is in the process, it can't be given other kernels, nor another way to wait.
    open_kernels()
    _wait_briefly()
    # Two threads that fail together would wait for each other's debugger for ever, and that prints on standard output.
    os.environ.setdefault(NO_BACKTRACE, "1")
    try:
        # The package imports its high-level classes too; none of them is used.
        from llama_cpp import __version__
        from llama_cpp import llama_cpp as bindings
    except (ImportError, OSError, RuntimeError, FileNotFoundError) as error:
        raise _unusable(f"It can't be imported: {error}") from error
    _refuse_other_abi(bindings, __version__)
    bindings.llama_log_set(_log_callback(bindings), None)
    bindings.llama_backend_init()
    return bindings


def _wait_briefly() -> None:
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(_SPINS))


@cache
def kernels() -> Kernels:
    """Return the kernels of our own, which work in the engine from now on, or none and the reason."""
    folder = library_folder(llama_cpp())
    return open_kernels().connect(folder)


def leave_kernels_out() -> None:
    """Keep to llama.cpp's own kernels from now on, without a look at ours: they may be what crashed in a child."""
    os.environ[OFF] = "off"
    if kernels.cache_info().currsize:
        kernels().enable(False)


def library_folder(bindings: ModuleType) -> Path:
    """Return the folder of the library's files."""
    return Path(bindings.__file__ or "").parent / "lib"


def ggml_function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a C function of ggml, which the bindings leave out, with its types; raises LocalspecError for none."""
    llama_cpp()
    for library in _ggml_libraries():
        # Each has its own handle: Windows does not look into the libraries behind the one that is asked.
        if (function := getattr(library, name, None)) is not None:
            function.restype, function.argtypes = result, arguments
            return cast(Callable[..., Any], function)
    raise _unusable(f"Its library has no {name}.")


def engine_library() -> ctypes.CDLL:
    """Return llama.cpp's library, for functions that the bindings leave out."""
    return cast(ctypes.CDLL, llama_cpp()._lib)


@cache
def _ggml_libraries() -> tuple[ctypes.CDLL, ...]:
    from llama_cpp._ctypes_extensions import load_shared_library
    from llama_cpp._ggml import libggml, libggml_base_path

    libraries = [libggml]
    for name in ("ggml-base", "ggml-cpu"):
        with suppress(FileNotFoundError, RuntimeError):
            libraries.append(load_shared_library(name, libggml_base_path))
    return tuple(libraries)


def recent_errors() -> str:
    """Return what llama.cpp last complained about, one line; "" if nothing; and forget it."""
    text = "; ".join(dict.fromkeys(_recent_errors))
    _recent_errors.clear()
    return text


def _refuse_other_abi(bindings: ModuleType, version: str) -> None:
    """Another library behind these structs would be silent memory corruption, so it is refused."""
    if version != VERSION:
        raise _unusable(f"It is version {version}; this localspec was checked against {VERSION} alone.")
    for name, size in _STRUCT_SIZES.items():
        seen = ctypes.sizeof(getattr(bindings, name))
        if ctypes.sizeof(ctypes.c_void_p) == 8 and seen != size:
            raise _unusable(f"Its {name} has {seen} bytes, not {size}.")


def _unusable(cause: str) -> LocalspecError:
    hint = f"Build it anew: {rebuild_command(VERSION)}"
    return LocalspecError("The engine, llama-cpp-python, can't be used.", cause=cause, hint=hint)


@cache
def _log_callback(bindings: ModuleType) -> object:
    """Return the callback, built once and never freed: llama.cpp keeps its address as long as the process lives."""
    level_of_last = logging.INFO

    def write(level: int, text: bytes, _: object) -> None:
        nonlocal level_of_last
        if level != _CONTINUES:
            level_of_last = _LEVELS.get(level, logging.DEBUG)
        line = text.decode("utf-8", errors="replace").strip()
        # Lone dots are its progress bar.
        if not line.strip("."):
            return
        if level_of_last >= logging.ERROR:
            _recent_errors.append(line)
        _log.log(level_of_last, "%s", line)

    return bindings.llama_log_callback(write)
