"""Compilation of the kernels: once for a processor, with the compiler that built the engine, in a few seconds.

What comes of it lies beside Python's own bytecode of this package, since it is of the same kind: made from these
sources, made again when they change, and never shipped. A compiler that can't is remembered there as well.
"""

import errno
import hashlib
import logging
import os
import platform
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

import platformdirs

from models.abort import AbortFlag
from models.errors import Cancelled, LocalspecError
from models.kernels.compiler_failures import check_untried, failure_of, remember_failure
from models.kernels.compilers import CompilerError, run_together
from models.system.file_lock import locked
from models.system.machine import machine_id, physical_cores, processor_flags
from models.system.sealed import SEAL, UntrustedError, open_sealed, private_folder, remove_sealed, seal

_SOURCES = tuple(
    Path(__file__).with_name(name)
    for name in (
        # What takes longest comes first, so that no core waits for it at the end.
        "grids.cpp",
        "small_quants.cpp",
        "k_quants.cpp",
        "tables.cpp",
        "ternary.cpp",
        "floats.cpp",
        "attention.cpp",
        "matmul.cpp",
        "screen.cpp",
        "activations.cpp",
        "layers.cpp",
        "memory.cpp",
        "products.h",
        "strips.h",
        "k_blocks.h",
        "k_strips.h",
        "k_lanes.h",
        "small_strips.h",
        "small_lanes.h",
        "screen.h",
        "attention_chunk.h",
        "attention_bytes.h",
        "attention_rows.h",
        "blocks.h",
        "small_blocks.h",
        "grid_blocks.h",
        "wide_lanes.h",
        "narrow_lanes.h",
        "engine.h",
        "vectors.h",
    )
)
# Without -ffp-contract=off a compiler may join a product and a sum in one function, and not in its twin.
# -w: GCC 12 warns of its own headers, some thousand times.
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-ffp-contract=off", "-fPIC", "-w")
_LINK_FLAGS = ("-shared", "-fPIC")
_NEEDED = frozenset({"avx2", "fma", "f16c"})
_COMPILERS = ("c++", "g++", "clang++")
_SECONDS = 300
"""Beside other builds it may take ten times as long as alone."""
_HOUR = 3600
_UNUSED_SECONDS = 30 * 24 * _HOUR
"""Seconds after which an unused library is removed: other versions of localspec may share the folder."""
_LOCK = "compiling.lock"
"""File in the folder of the library, locked by the process that compiles it."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without locks, some of networks among them: there each process compiles for itself."""
OFF = "LOCALSPEC_KERNELS"
"""The variable that keeps llama.cpp's own kernels in use, when it is "off"."""
_log = logging.getLogger("localspec.kernels")


def compiled(extra: tuple[str, ...] = (), folder: Path | None = None, abort: AbortFlag | None = None) -> Path:
    """Return the library of the kernels, compiled now if it is not there.

    `extra` are more flags for the compiler, `folder` another place for the library. Raises LocalspecError where it
    can't be had, and Cancelled where a stop was asked for.
    """
    check_possible()
    places = _places(extra, [folder] if folder else None)
    for library in places:
        if _is_sound(library):
            _keep(library)
            _remove_unused(library.parent)
            return library
    fault: OSError | None = None
    for library in places:
        # An installation that belongs to another user, or a full disk, can't be written.
        try:
            private_folder(library.parent)
            return _compile_once(library, extra, abort or AbortFlag())
        except OSError as error:
            fault = error
    why = fault.strerror if fault is not None and fault.errno == errno.ENOSPC else "It can't be written"
    raise LocalspecError("The kernels can't be kept.", cause=f"{places[-1].parent}: {why}.", hint="Make room there.")


def open_library(library: Path) -> int:
    """Open a library that was compiled here for reading, checked; the descriptor shows what was checked.

    Raises LocalspecError for one that is damaged, or that another user could have written.
    """
    try:
        return open_sealed(library)
    except (UntrustedError, OSError) as error:
        raise LocalspecError("The compiled kernels can't be trusted.", cause=f"{library}: {error}.") from error


def discard(library: Path) -> None:
    """Remove a library, so that it is compiled anew; one that can't be removed is passed over."""
    _whole.cache_clear()
    with suppress(OSError):
        remove_sealed(library)


def kept_files() -> list[Path]:
    """Return the files of all compiled kernels, those of other versions and remembered failures included."""
    found = (file for folder in library_folders() for file in folder.glob("kernels-*"))
    # Another process may be compiling in such a folder.
    return sorted(file for file in found if file.suffix != ".partial")


def is_compiled() -> bool:
    """Return whether the library is there; raises LocalspecError where there can be none."""
    check_possible()
    return any(map(_is_sound, _places()))


def _is_sound(library: Path) -> bool:
    """Return whether a library may be loaded; why one that is there may not be is logged."""
    try:
        state, seal = library.lstat(), library.with_name(library.name + SEAL).lstat()
        key = tuple((one.st_ino, one.st_mode, one.st_uid, one.st_size, one.st_mtime_ns) for one in (state, seal))
    except OSError:
        key = ()
    return _whole(library, key)


@cache
def _whole(library: Path, _: tuple[tuple[int, ...], ...]) -> bool:
    """Check a library once for what the system says of it: its name is asked for with each figure remembered."""
    try:
        os.close(open_sealed(library))
    except FileNotFoundError:
        return False
    except (UntrustedError, OSError) as error:
        _log.warning("%s is not used, and compiled anew: %s", library, error)
        return False
    return True


def _keep(library: Path) -> None:
    """Have it count as used now."""
    # A folder that can't be written is not cleaned either.
    with suppress(OSError):
        os.utime(library)


def _places(extra: tuple[str, ...] = (), folders: Sequence[Path] | None = None) -> list[Path]:
    """Return where the library of these sources and flags may be, the best place first."""
    name = f"kernels-{machine_id()}-{_digest(extra)}.so"
    return [folder / name for folder in folders or library_folders()]


def library_folders() -> list[Path]:
    """Return the folders for the library: beside Python's bytecode, else the user's cache."""
    return [Path(cache_from_source(__file__)).parent, _spare_folder()]


def state() -> str:
    """Return in a word which kernels a process that has loaded the engine has: those compiled, or none."""
    try:
        check_possible()
    except LocalspecError:
        return "no kernels"
    # One that could not be compiled must not pass for one that could: what is exact differs.
    return next((library.stem for library in _places() if _is_sound(library)), "no kernels")


def check_possible(flags: frozenset[str] | None = None) -> None:
    """Raise LocalspecError where the kernels are not for this system or processor, or were switched off."""
    if os.environ.get(OFF, "").lower() in ("off", "0", "no"):
        raise LocalspecError(f"{OFF} is {os.environ[OFF]}.", hint=f"Unset {OFF}.")
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise LocalspecError(f"They are for Linux on x86-64, and this is {sys.platform} on {platform.machine()}.")
    if missing := _NEEDED - (processor_flags() if flags is None else flags):
        raise LocalspecError(f"This processor lacks {', '.join(sorted(missing))}.")


def _digest(extra: tuple[str, ...]) -> str:
    digest = hashlib.sha256(" ".join([*_FLAGS, *_LINK_FLAGS, *extra]).encode())
    for source in _SOURCES:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _spare_folder() -> Path:
    return Path(platformdirs.user_cache_dir("localspec", appauthor=False)) / "kernels"


def _compile_once(library: Path, extra: tuple[str, ...], abort: AbortFlag) -> Path:
    """Compile, or wait for another process that compiles the same; raises OSError.

    Several that compile side by side would each take as many times longer, and then put their library in place of one
    that is already in use.
    """

    def check() -> None:
        if abort.is_set:
            raise Cancelled("Waiting for another process that compiles the kernels was stopped.")

    with ExitStack() as held:
        try:
            held.enter_context(locked(library.parent / _LOCK, _SECONDS, check))
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        if not _is_sound(library):
            remove_sealed(library)
            _compile(library, extra, abort)
    return library


def _compile(library: Path, extra: tuple[str, ...], abort: AbortFlag) -> None:
    """Compile in a folder of its own and rename the result, so that no process loads half of one; raises OSError."""
    compiler = _compiler()
    failure = failure_of(library, compiler)
    check_untried(failure)
    partial = library.with_name(f"{library.name}.{secrets.token_hex(4)}.partial")
    try:
        # A folder that is there need not be one that can be written, and a compiler would say so only at its end.
        partial.mkdir()
        units = compile_units(compiler, _SOURCES, (*_FLAGS, *extra), partial, abort)
        seal(link(compiler, units, partial / library.name, abort), library)
    except CompilerError as error:
        if error.lasting:
            remember_failure(failure, error.cause)
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    _remove_unused(library.parent)


def compile_units(
    compiler: list[str], sources: Sequence[Path], flags: Sequence[str], folder: Path, abort: AbortFlag
) -> list[Path]:
    """Compile the units among sources side by side; return what they came to. Raises CompilerError and Cancelled."""
    units = {source: folder / f"{source.stem}.o" for source in sources if source.suffix == ".cpp"}
    commands = {
        made.with_suffix(".said"): [*compiler, *flags, "-c", "-o", str(made), str(source)]
        for source, made in units.items()
    }
    run_together(commands, physical_cores(), _SECONDS, abort)
    return list(units.values())


def link(compiler: list[str], units: Sequence[Path], library: Path, abort: AbortFlag) -> Path:
    """Make a library of compiled units; raises CompilerError and Cancelled."""
    command = [*compiler, *_LINK_FLAGS, "-o", str(library), *map(str, units)]
    run_together({library.with_suffix(".said"): command}, 1, _SECONDS, abort)
    return library


def _remove_unused(folder: Path) -> None:
    """Remove libraries unused for long, and what a killed process left; a process with a library open keeps it."""
    for other in folder.glob("kernels-*"):
        with suppress(OSError):
            age = time.time() - other.lstat().st_mtime
            if other.suffix == ".partial" and age > _HOUR:
                shutil.rmtree(other)
            elif other.suffix in (".so", ".failed") and age > _UNUSED_SECONDS:
                remove_sealed(other)
            elif other.suffix == SEAL and age > _HOUR and not other.with_suffix("").exists():
                other.unlink()


def _compiler() -> list[str]:
    """Return the command of the C++ compiler; raises LocalspecError for none."""
    try:
        named = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise CompilerError(f"CXX is {os.environ['CXX']!r}: {error}.") from error
    if named:
        return named
    for name in _COMPILERS:
        if found := shutil.which(name):
            return [found]
    raise LocalspecError("There is no C++ compiler.", hint="Install g++ or clang++.")
