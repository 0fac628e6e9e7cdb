"""Findings about the engine: its build, the processor, a test decode, and devices."""

import platform
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from app.doctor.findings import Finding, Mark, size
from models.errors import LocalspecError
from models.gguf.file import check_file
from models.library.catalog import STARTER, find_model
from models.llama.bindings import VERSION
from models.llama.devices import WORKERS, Build, Device, Kind, in_use
from models.llama.probe import FirstDecode, try_decode
from models.system.installing import rebuild_command
from models.system.machine import processor_flags

_engine = partial(Finding, "engine")
_FLAG_OF = {
    "AVX": "avx", "AVX2": "avx2", "F16C": "f16c", "FMA": "fma", "BMI2": "bmi2", "AVX_VNNI": "avx_vnni",
    "AVX512": "avx512f", "AVX512_VBMI": "avx512vbmi", "AVX512_VNNI": "avx512_vnni", "AVX512_BF16": "avx512_bf16",
    "NEON": "asimd", "DOTPROD": "asimddp", "MATMUL_INT8": "i8mm", "SVE": "sve",
}  # fmt: skip
"""Linux's name of a processor feature, by llama.cpp's name of the build that uses it."""
_AMX, _AMX_FLAG = "AMX_INT8", "amx_int8"
_AGAIN = rebuild_command(VERSION)
_REBUILD = f"Rebuild the engine on this machine: {_AGAIN}"
_WITH_AMX = f"With GCC it can be built in: CMAKE_ARGS='-DCMAKE_C_FLAGS=-fno-dse -DCMAKE_CXX_FLAGS=-fno-dse' {_AGAIN}"
_NAMES = {"MTL": "Metal"}


def engine_findings(build: Build, model: str, memory: Path, root: Path = Path("/")) -> Iterator[Finding]:
    """Yield the findings about a working engine; `memory` is the file of remembered results."""
    features, flags = frozenset(build.features.get("CPU", ())), processor_flags(root)
    yield _built(build)
    yield from _processor(features, flags)
    yield _amx(features, flags)
    yield _kernels(build)
    yield _decode(model, memory, Path(build.library))
    yield _blas(build)
    yield _gpu(build, root)
    yield from (_device(device) for device in build.devices if device.kind is not Kind.PROCESSOR)


def unusable(error: LocalspecError) -> Finding:
    """Return the findings about an engine that can't be loaded."""
    return _engine("build", _words(error), Mark.PROBLEM, error.hint)


def _built(build: Build) -> Finding:
    instructions = ", ".join(build.features.get("CPU", ())) or "no special features"
    values = {"features": {name: list(features) for name, features in build.features.items()}}
    back_ends = [_NAMES.get(name, name) for name in build.back_ends]
    fact = f"llama-cpp-python {VERSION}, back ends {', '.join(back_ends)}, built for {instructions}"
    return _engine("build", fact, values={**values, "version": VERSION, "back_ends": back_ends})


def _processor(features: frozenset[str], flags: frozenset[str]) -> Iterator[Finding]:
    """Compare the build with the processor; no finding where the processor's features are unknown."""
    if not flags or not features & _FLAG_OF.keys():
        return
    unused = [name for name, flag in _FLAG_OF.items() if flag in flags and name not in features]
    lacking = [name for name, flag in _FLAG_OF.items() if flag not in flags and name in features]
    values = {"unused": unused, "lacking": lacking}
    if lacking:
        fact = f"this processor lacks {', '.join(lacking)}, which the build uses: decoding will crash"
        yield _engine("processor", fact, Mark.PROBLEM, _REBUILD, values)
    elif unused:
        fact = f"this processor has {', '.join(unused)}, which the build does not use: decoding is slower than possible"
        yield _engine("processor", fact, Mark.NOTE, _REBUILD, values)
    else:
        yield _engine("processor", "the build uses every feature that llama.cpp supports", values=values)


def _amx(features: frozenset[str], flags: frozenset[str]) -> Finding:
    built, there = _AMX in features, _AMX_FLAG in flags
    values = {"built": built, "processor": there}
    if there and not built:
        fact = (
            "this processor has AMX, which the build does not use: prompts are slower with Q4_0, Q4_1 and Q8_0 models"
        )
        return _engine("AMX", fact, Mark.NOTE, _WITH_AMX, values)
    return _engine("AMX", "built in" if built else "not on this processor, not in the build", values=values)


def _kernels(build: Build) -> Finding:
    values = {"in_use": not build.without_kernels, "types": [*build.kernel_types]}
    if not build.without_kernels:
        types = ", ".join(build.kernel_types)
        fact = f"localspec's, for {types}: passes of any width are bit-identical, and wide passes cost little"
        return _engine("kernels", fact, values=values)
    fact, mark = f"only llama.cpp's: {build.without_kernels}", Mark.NOTE if build.remedy else Mark.OK
    return _engine("kernels", fact, mark, build.remedy, values, "only llama.cpp's")


def _decode(model: str, memory: Path, library: Path) -> Finding:
    """Decode a few tokens in a child process: processor or compiler may break a build."""
    decode, what = partial(_engine, "decode"), "the starter model" if model == STARTER else model
    try:
        path = find_model(model)
        check_file(path)
    except LocalspecError as error:
        hint = f"{error.hint} Or test another model: localspec doctor MODEL"
        if model == STARTER:
            return decode(f"not tried: {error.title}", Mark.NOTE, hint)
        return decode(_words(error), Mark.PROBLEM, hint, public="the given model can't be read")
    try:
        return _decoded(try_decode(path, memory, library=library), what)
    except LocalspecError as error:
        return decode(_words(error), Mark.PROBLEM, error.hint, public=error.title)


def _decoded(result: FirstDecode, what: str) -> Finding:
    decode = partial(_engine, "decode")
    # A decode that fails raises, so its exit code is 0 here; scripts read the field.
    values = {"extra_buffers": result.extra_buffers, "code": 0}
    if result.extra_buffers:
        return decode(f"works with {what}, including rearranged weights", values=values, public="works")
    fact = "crashes with rearranged weights (a known bug of AMX under GCC 12); without them it is slower"
    return decode(fact, Mark.NOTE, _REBUILD, values)


def _blas(build: Build) -> Finding:
    found = [device.description for device in build.devices if device.kind is Kind.ACCELERATOR]
    return _engine("BLAS", ", ".join(found) or "none, llama.cpp's own kernels are used", values={"devices": [*found]})


def _gpu(build: Build, root: Path) -> Finding:
    used, others = in_use(build.devices), [name for name in build.back_ends if name not in ("CPU", "BLAS", WORKERS)]
    values = {"in_use": [device.name for device in used]}
    if used:
        return _engine("GPU", f"models run on {', '.join(device.name for device in used)}", values=values)
    if others:
        fact = f"the build has {', '.join(others)} but finds no device: the CPU is used"
        return _engine("GPU", fact, Mark.NOTE, "Check that the driver is installed and running.", values)
    if there := _driver(root):
        maker, flag = there
        fact = f"{maker}'s driver is installed, but the build has no back end for it: the CPU is used"
        return _engine("GPU", fact, Mark.NOTE, f"Build one: CMAKE_ARGS=-D{flag}=on {_AGAIN}", values)
    return _engine("GPU", "none: no back end in the build, and no GPU found", values=values)


def _driver(root: Path) -> tuple[str, str] | None:
    """Return the maker of a GPU with a driver here, and the flag that builds its back end."""
    if (root / "proc/driver/nvidia/version").exists():
        return "NVIDIA", "GGML_CUDA"
    if (root / "dev/kfd").exists():
        return "AMD", "GGML_HIP"
    return ("Apple", "GGML_METAL") if sys.platform == "darwin" and platform.machine() == "arm64" else None


def _device(device: Device) -> Finding:
    values = {"kind": device.kind.name.lower(), "free": device.free, "total": device.total}
    memory = f", {size(device.free)} free of {size(device.total)}" if device.total else ""
    shared = ", the machine's own memory" if device.shares_memory and device.total else ""
    return _engine(f"device {device.name}", f"{device.description}{memory}{shared}", values=values)


def _words(error: LocalspecError) -> str:
    return " ".join(part for part in (error.title, error.cause) if part)
