"""Interposition of the kernels: llama.cpp's calls reach them through the dynamic linker.

llama.cpp's processor back end calls some of its functions through the dynamic linker, which takes the first of a name:
so the kernels have to be in the process before it, and with global names. What they are not made for goes
on to llama.cpp's own function, and all of it does until a check has shown that its calls arrive here and come out as
they should.
"""

import ctypes
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError
from models.gguf.bytes_read import read_a_token
from models.gguf.header import Header
from models.kernels.compiling import check_possible, compiled, discard, is_compiled, open_library
from models.system.engine_folder import engine_folder

_WORTH = 0.5
"""Share of what a token reads from which on the kernels are worth leaving the rest as it is in the file."""
_log = logging.getLogger("localspec.kernels")
_log.addHandler(logging.NullHandler())


_CPU = "libggml-cpu.so"
_NAMES = (
    "llamafile_sgemm",
    "ggml_compute_forward_mul_mat_tiled",
    "ggml_compute_forward_mul_mat_id_tiled",
    "ggml_compute_forward_flash_attn_ext",
    "ggml_barrier",
    "ggml_threadpool_chunk_set",
    "ggml_threadpool_chunk_add",
    "quantize_row_q8_K_ref",
    "ggml_get_type_traits",
)


class _Engine(ctypes.Structure):
    """Addresses of llama.cpp's own functions; as `Engine` in engine.h."""

    _fields_ = [(name, ctypes.c_void_p) for name in _NAMES]


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of this process."""

    library: ctypes.CDLL | None
    """None where there are none."""
    reason: str = ""
    """Reason that they are not in use; "" if they are, or may come to be."""
    remedy: str = ""
    """Step that would bring them into use; "" for none, and where they are in use."""
    types: frozenset[str] = frozenset()
    """Types of weights that they read, as they are in the file, such as "Q4_K"."""

    def connect(self, folder: Path) -> "Kernels":
        """Take over from the engine whose library files are in a folder; return what came of it."""
        if self.library is None:
            return self
        # What only reads headers comes this way too, and can do without numpy.
        from models.kernels.check import TYPES, check_kernels, readable
        from models.kernels.ggml import Ggml

        try:
            cpu = ctypes.CDLL(str(folder / _CPU))
            addresses = [ctypes.cast(getattr(cpu, name), ctypes.c_void_p) for name in _NAMES]
            # Also where they are switched off: calls that arrive here must still reach llama.cpp.
            self.library.localspec_connect(ctypes.byref(_Engine(*addresses)))
            check_possible()
            check_kernels(Ggml(ctypes.CDLL(str(folder / "libggml-base.so")), cpu), self.library)
        except (OSError, AttributeError, LocalspecError) as error:
            self.enable(False)
            return _without(LocalspecError(f"They can't take over here: {error}"))
        return replace(self, types=frozenset(TYPES[kind] for kind in readable(self.library)))

    def enable(self, yes: bool) -> None:
        """Let the kernels work, or llama.cpp's own: for all models of this process, between two passes."""
        if self.library is not None:
            self.library.localspec_enable(ctypes.c_bool(yes))


@cache
def open_kernels() -> Kernels:
    """Bring the kernels into this process, before the library that will call them; never raises."""
    try:
        check_engine(engine_folder())
        return Kernels(_loaded())
    except LocalspecError as error:
        return _without(error)
    except OSError as error:
        hint = "Name another compiler: CXX=g++ or CXX=clang++."
        return _without(LocalspecError("The kernels can't be loaded.", cause=str(error), hint=hint))


def _loaded() -> ctypes.CDLL:
    """Load the compiled library, compiled once more where it is whole and yet can't be loaded; raises OSError."""
    library = compiled()
    try:
        return _load_checked(library)
    except (OSError, LocalspecError) as error:
        _log.warning("%s is compiled anew: %s", library, error)
        discard(library)
        return _load_checked(compiled())


def _load_checked(library: Path) -> ctypes.CDLL:
    """Load the very file that was checked, whatever its name leads to by now."""
    handle = open_library(library)
    # Left open: the linker takes a library of a known name for loaded, and the number would be given to another file.
    return ctypes.CDLL(f"/proc/self/fd/{handle}", mode=ctypes.RTLD_GLOBAL)


def compile_kernels(abort: AbortFlag, on_begin: Callable[[], object] = lambda: None) -> None:
    """Compile the kernels if they are not there yet, before anything waits for them that can't be stopped.

    `on_begin` is called before that is tried. Raises Cancelled where a stop was asked for, and nothing else:
    `open_kernels` gives the reason why there are none.
    """
    if open_kernels.cache_info().currsize:
        return
    try:
        check_engine(engine_folder())
        if not is_compiled():
            on_begin()
        compiled(abort=abort)
    except Cancelled:
        raise
    except (LocalspecError, OSError) as error:
        _log.info("not compiled: %s", error)


def check_engine(folder: Path) -> None:
    """Raise LocalspecError where llama.cpp's files lack what the kernels stand in for, and would have to hand on to.

    Looked for without loading them: their calls are bound when they are loaded.
    """
    if "LLAMA_CPP_LIB_PATH" in os.environ:
        raise LocalspecError("LLAMA_CPP_LIB_PATH names another llama.cpp.", hint="Unset LLAMA_CPP_LIB_PATH.")
    try:
        held = (folder / _CPU).read_bytes()
    except OSError as error:
        raise LocalspecError(f"This build of llama.cpp has no {_CPU}.", cause=str(error)) from error
    if missing := [name for name in _NAMES if name.encode() + b"\0" not in held]:
        raise LocalspecError(f"This build of llama.cpp has no {missing[0]}.")


def suits(header: Header, types: frozenset[str]) -> bool:
    """Return whether at least half of the bytes that a token reads of this model are weights of these types."""
    read = read_a_token(header)
    ours = sum(size for tensor, size in read.items() if tensor.type in types)
    return ours >= _WORTH * sum(read.values())


def _without(error: LocalspecError) -> Kernels:
    reason = " ".join(part for part in (error.title, error.cause) if part)
    _log.info("no kernels of our own: %s", reason)
    return Kernels(None, reason, error.hint)
