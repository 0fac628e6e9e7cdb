"""llama.cpp as it is without kernels of ours: what those are there to mend shows only then."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import models.kernels.compiling as compiling
from models.abort import AbortFlag
from models.errors import LocalspecError
from models.kernels.compiling import check_possible, compiled
from models.llama.bindings import kernels
from models.system.file_lock import locked
from models.system.machine import processor_flags

WIDE = processor_flags() >= {"avx512bw", "avx512dq", "avx512vl"}
"""Whether kernels for this processor use vectors of 64 bytes."""
_NO_VNNI, _NO_AVX512 = "-DLOCALSPEC_NO_VNNI", "-DLOCALSPEC_NO_AVX512"
_MATTERS = {_NO_VNNI: bool(processor_flags() & {"avx512_vnni", "avx_vnni", "avx512_bf16"}), _NO_AVX512: WIDE}
"""Whether the kernels differ with a flag on this processor: most lack what it leaves out."""
_PATIENCE = 600.0
"""Seconds to wait for another process that compiles."""


def builds(wanted: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the builds among those wanted that differ on this processor, by name: their flags for the compiler."""
    found: dict[tuple[str, ...], str] = {}
    for name, flags in wanted.items():
        found.setdefault(tuple(flag for flag in flags if _MATTERS[flag]), name)
    return {name: flags for flags, name in found.items()}


EVERY_BUILD = builds(
    {"as it is": (), "no VNNI": (_NO_VNNI,), "AVX2": (_NO_AVX512,), "AVX2, no VNNI": (_NO_AVX512, _NO_VNNI)}
)
WIDEST_AND_NARROWEST = builds({"as it is": (), "AVX2, no VNNI": (_NO_AVX512, _NO_VNNI)})


def has_digits(flags: tuple[str, ...]) -> bool:
    """Return whether kernels built with these flags round queries to two digits, to multiply them with keys in Q8_0."""
    instruction = "avx512_vnni" if WIDE and _NO_AVX512 not in flags else "avx_vnni"
    return _NO_VNNI not in flags and instruction in processor_flags()


@contextmanager
def llama_cpps_own() -> Iterator[None]:
    kernels().enable(False)
    try:
        yield
    finally:
        kernels().enable(True)


def built(extra: tuple[str, ...], temporary: Path) -> Path:
    """Return the kernels compiled with more flags, once for all tests and processes of a run; its temporary folder."""
    folder = _shared(temporary, "kernels")
    with locked(folder / "lock", patience=_PATIENCE):
        # Without further flags they are those that the program has.
        return compiled(extra, folder if extra else None)


def built_units(flags: list[str], temporary: Path) -> list[Path]:
    """Return the kernels' units compiled with flags, once for all tests and processes of a run."""
    folder = _shared(temporary, "units")
    with locked(folder / "lock", patience=_PATIENCE):
        if not (folder / "done").exists():
            compiling.compile_units(compiling._compiler(), compiling._SOURCES, flags, folder, AbortFlag())
            (folder / "done").touch()
    return [folder / f"{source.stem}.o" for source in compiling._SOURCES if source.suffix == ".cpp"]


def _shared(temporary: Path, name: str) -> Path:
    """Return a folder that all processes of a run share."""
    folder = (temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary) / name
    folder.mkdir(exist_ok=True)
    return folder


def skip_where_impossible() -> None:
    """Skip a test where there can be no kernels of ours."""
    try:
        check_possible()
    except LocalspecError as error:
        pytest.skip(f"no kernels here: {error}")
