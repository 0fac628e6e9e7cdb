"""Compiling the kernels: once for a processor, with the compiler that built the engine, in a few seconds.

What comes of it lies beside Python's own bytecode of this package, since it is of the same kind: made from these
sources, made again when they change, and never shipped.
"""

import hashlib
import os
import platform
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

import platformdirs

from models.errors import LocalspecError
from models.machine import machine_id, processor_flags

_SOURCES = tuple(
    Path(__file__).with_name(name)
    for name in (
        "matmul.cpp",
        "attention.cpp",
        "activations.cpp",
        "memory.cpp",
        "attention_rows.h",
        "blocks.h",
        "small_blocks.h",
        "wide_lanes.h",
        "narrow_lanes.h",
        "engine.h",
        "vectors.h",
    )
)
# Without -ffp-contract=off a compiler may join a product and a sum in one function, and not in its twin.
# -w: GCC 12 warns of its own headers, some thousand times.
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-ffp-contract=off", "-shared", "-fPIC", "-w")
_NEEDED = frozenset({"avx2", "fma", "f16c"})
_COMPILERS = ("c++", "g++", "clang++")
_SECONDS = 180
_MOST_SAID = 400
_OTHER = "Name another compiler: CXX=g++ or CXX=clang++."
OFF = "LOCALSPEC_KERNELS"
"""The variable that keeps llama.cpp's own kernels in use, when it is "off"."""


def compiled(extra: tuple[str, ...] = (), folder: Path | None = None) -> Path:
    """Return the library of the kernels, compiled now if it is not there; raises LocalspecError where it can't be had.

    `extra` are more flags for the compiler, `folder` another place for the library.
    """
    check_possible()
    places = _places(extra, [folder] if folder else None)
    for library in places:
        if library.is_file():
            return library
    for library in places:
        # An installation that belongs to somebody else can't be written.
        with suppress(OSError):
            library.parent.mkdir(parents=True, exist_ok=True)
            return _compile(library, extra)
    cause = f"{places[-1].parent} can't be written."
    raise LocalspecError("The kernels can't be kept.", cause=cause, hint="Make room there.")


def _places(extra: tuple[str, ...] = (), folders: Sequence[Path] | None = None) -> list[Path]:
    """Return where the library of these sources and flags may be, the best place first."""
    name = f"kernels-{machine_id()}-{_digest(extra)}.so"
    return [folder / name for folder in folders or (Path(cache_from_source(__file__)).parent, _spare_folder())]


def units(sources: Sequence[Path]) -> list[str]:
    """Return those of the sources that a compiler is given; they name the others."""
    return [str(source) for source in sources if source.suffix == ".cpp"]


def state() -> str:
    """Return in a word which kernels a process that has loaded the engine has: those compiled, or none."""
    try:
        check_possible()
    except LocalspecError:
        return "no kernels"
    # One that could not be compiled must not pass for one that could: what is exact differs.
    return next((library.stem for library in _places() if library.is_file()), "no kernels")


def check_possible(flags: frozenset[str] | None = None) -> None:
    """Raise LocalspecError where the kernels are not for this system or processor, or were switched off."""
    if os.environ.get(OFF, "").lower() in ("off", "0", "no"):
        raise LocalspecError(f"{OFF} is {os.environ[OFF]}.", hint=f"Unset {OFF}.")
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise LocalspecError(f"They are for Linux on x86-64, and this is {sys.platform} on {platform.machine()}.")
    if missing := _NEEDED - (processor_flags() if flags is None else flags):
        raise LocalspecError(f"This processor lacks {', '.join(sorted(missing))}.")


def _digest(extra: tuple[str, ...]) -> str:
    digest = hashlib.sha256(" ".join([*_FLAGS, *extra]).encode())
    for source in _SOURCES:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _spare_folder() -> Path:
    return Path(platformdirs.user_cache_dir("localspec", appauthor=False)) / "kernels"


def _compile(library: Path, extra: tuple[str, ...]) -> Path:
    """Compile into a file of its own and rename it, so that nobody loads half of one; raises OSError."""
    partial = library.with_name(f"{library.name}.{secrets.token_hex(4)}.partial")
    try:
        # A folder that is there need not be one that can be written, and a compiler would say so only at its end.
        partial.touch()
        _run([*_compiler(), *_FLAGS, *extra, "-o", str(partial), *units(_SOURCES)])
        partial.replace(library)
    finally:
        partial.unlink(missing_ok=True)
    _remove_older(library)
    return library


def _run(command: Sequence[str]) -> None:
    """Run a compiler; raises LocalspecError where it fails, or is none."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise _failed(f"That took over {_SECONDS} seconds.") from error
    except OSError as error:
        # Not to be taken for a place that can't be written.
        raise _failed(f"{command[0]} can't be run: {error.strerror}.") from error
    if done.returncode:
        # It may name a folder whose name is no text.
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise _failed(f"{command[0]}: {said[:_MOST_SAID]}")


def _failed(cause: str) -> LocalspecError:
    return LocalspecError("The kernels can't be compiled.", cause=cause, hint=_OTHER)


def _remove_older(library: Path) -> None:
    """Remove what other sources came to on this processor; who has it open keeps it."""
    for other in library.parent.glob(f"kernels-{machine_id()}-*.so"):
        if other != library:
            with suppress(OSError):
                other.unlink()


def _compiler() -> list[str]:
    """Return the command of the C++ compiler; raises LocalspecError for none."""
    try:
        named = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise _failed(f"CXX is {os.environ['CXX']!r}: {error}.") from error
    if named:
        return named
    for name in _COMPILERS:
        if found := shutil.which(name):
            return [found]
    raise LocalspecError("There is no C++ compiler.", hint="Install g++ or clang++.")
