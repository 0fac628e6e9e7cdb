"""Back ends that llama.cpp was built for, and the devices that it finds here, with their memory.

A build can be broken so badly that asking it ends the process, and a driver can hang: so questions about them go to a
child. Run as a program, this module is that child, and prints one line of JSON.
"""

import ctypes
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from models.abort import AbortFlag
from models.errors import LocalspecError
from models.kernels.takeover import compile_kernels
from models.llama.bindings import VERSION, ggml_function, kernels, library_folder, llama_cpp
from models.system.children import end, start
from models.system.installing import rebuild_command

_SECONDS = 20.0
_FEATURE = re.compile(r"(\w+) = (\w+) \|")
_WITHOUT_A_GPU = ("ggml", "ggml-base", "ggml-blas", "ggml-rpc")
_PROCESSORS = "ggml-cpu"
"""One library, or one for each kind of processor."""
_METAL = ("MTL", "Metal")
WORKERS = "RPC"
"""The back end whose devices are other machines; each calls itself a GPU."""


class Kind(IntEnum):
    """Kinds of devices, by llama.cpp's numbers."""

    PROCESSOR = 0
    GPU = 1
    INTEGRATED = 2
    ACCELERATOR = 3
    OTHER = 4


@dataclass(frozen=True, slots=True)
class Device:
    """Something that llama.cpp computes on."""

    back_end: str
    """Such as "CPU", "CUDA", "Vulkan" or "BLAS"."""
    name: str
    description: str
    kind: Kind
    free: int
    """Bytes of its memory that are free."""
    total: int
    """Bytes of its memory; 0 where it does not say."""

    @property
    def shares_memory(self) -> bool:
        """True if it uses the machine's own memory; Metal calls itself a GPU like any other."""
        return self.kind is Kind.INTEGRATED or self.back_end.startswith(_METAL)


@dataclass(frozen=True, slots=True)
class Build:
    """The llama.cpp that is installed."""

    features: dict[str, tuple[str, ...]]
    """Features of the processor that each back end was built for, such as "AVX2", by its name."""
    back_ends: tuple[str, ...]
    devices: tuple[Device, ...]
    library: str = ""
    """Folder of its files."""
    without_kernels: str = ""
    """Reason that localspec's kernels do not work in it; "" if they do."""
    remedy: str = ""
    """Step that would bring them into use; "" for none."""
    kernel_types: tuple[str, ...] = ()
    """Types of weights that they read."""


def in_use(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the GPUs that a model goes to: integrated ones only where there are no others."""
    for kind in (Kind.GPU, Kind.INTEGRATED):
        if found := tuple(device for device in devices if device.kind is kind and device.back_end != WORKERS):
            return found
    return ()


@cache
def finds_gpu() -> bool:
    """Return whether the engine has a GPU of this machine; raises LocalspecError for an engine that can't be used.

    llama.cpp's own answer counts workers on other machines, and so is true for each build that could reach one.
    """
    return bool(in_use(_devices()))


def gpus() -> tuple[Device, ...]:
    """Return the GPUs that a model goes to; () without any, or without an engine that works."""
    if not _may_have_gpus():
        return ()
    try:
        llama_cpp()
        return in_use(_devices())
    except LocalspecError:
        # What loads a model will say what is wrong with it.
        return ()


def read_build() -> Build:
    """Ask the library; raises LocalspecError for one that can't be used."""
    api = llama_cpp()
    text = api.llama_print_system_info().decode("utf-8", errors="replace")
    count = ggml_function("ggml_backend_reg_count", ctypes.c_size_t)()
    found = (ggml_function("ggml_backend_reg_get", ctypes.c_void_p, ctypes.c_size_t)(place) for place in range(count))
    names = tuple(_text("ggml_backend_reg_name", each) for each in found)
    ours = kernels()
    types = tuple(sorted(ours.types))
    return Build(_features(text), names, _devices(), str(library_folder(api)), ours.reason, ours.remedy, types)


def ask_child(command: Sequence[str] | None = None, seconds: float = _SECONDS) -> Build:
    """Ask the library in a child process; raises LocalspecError for one that can't be used, dies, or hangs."""
    # It may take longer than is waited for an answer, and a child that is killed leaves its compilers behind.
    compile_kernels(AbortFlag())
    # -P: without it a folder "models" in the user's own project would be imported, and run, in place of this one.
    command = command or (sys.executable, "-P", "-m", "models.llama.devices")
    code, text = _ran(command, seconds)
    # A library may print before: the last line is the child's own.
    line = (text.decode("utf-8", errors="replace").splitlines() or [""])[-1]
    if code == 0:
        return build_of(json.loads(line))
    try:
        raise LocalspecError(**json.loads(line))
    except (ValueError, TypeError):
        raise _broken(f"Loading it ended a process: code {code} (-4 is an illegal instruction).") from None


def _ran(command: Sequence[str], seconds: float) -> tuple[int, bytes]:
    """Run a child that ends with this process; return its exit code and what it said. Raises LocalspecError."""
    with tempfile.TemporaryFile() as out:
        child = start(command, out=out, err=subprocess.DEVNULL)
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise _broken(
                f"It did not answer within {seconds:.0f} seconds.", "Restart the machine: a driver seems to hang."
            ) from None
        finally:
            end(child)
        out.seek(0)
        return code, out.read()


def build_of(record: dict[str, Any]) -> Build:
    """Return what a child said of the build."""
    return Build(
        {name: tuple(features) for name, features in record["features"].items()},
        tuple(record["back_ends"]),
        tuple(Device(**{**each, "kind": Kind(each["kind"])}) for each in record["devices"]),
        record["library"],
        record["without_kernels"],
        record["remedy"],
        tuple(record["kernel_types"]),
    )


def _broken(cause: str, hint: str = "") -> LocalspecError:
    hint = hint or f"Rebuild it on this machine: {rebuild_command(VERSION)}"
    return LocalspecError("The engine, llama-cpp-python, can't be used.", cause=cause, hint=hint)


def _may_have_gpus() -> bool:
    """Tell by the files of the build whether it has a GPU back end: loading one that has none takes a second."""
    spec = find_spec("llama_cpp")
    folder = Path(spec.origin).parent / "lib" if spec and spec.origin else Path()
    names = [file.name.split(".")[0].removeprefix("lib") for file in folder.glob("*ggml*")]
    return any(name not in _WITHOUT_A_GPU and not name.startswith(_PROCESSORS) for name in names)


def _features(text: str) -> dict[str, tuple[str, ...]]:
    """Read "CPU : AVX = 1 | AVX2 = 1 | CUDA : ARCHS = 890 | ": what is not 1 keeps its value."""
    found: dict[str, tuple[str, ...]] = {}
    for part in re.split(r"(?=\b\w+ : )", text):
        name, _, rest = part.partition(" : ")
        if features := _FEATURE.findall(rest):
            found[name.strip()] = tuple(key if value == "1" else f"{key}={value}" for key, value in features)
    return found


def _devices() -> tuple[Device, ...]:
    count = ggml_function("ggml_backend_dev_count", ctypes.c_size_t)()
    get = ggml_function("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
    return tuple(_device(get(place)) for place in range(count))


def _device(handle: int) -> Device:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    sizes = ctypes.POINTER(ctypes.c_size_t)
    memory = ggml_function("ggml_backend_dev_memory", None, ctypes.c_void_p, sizes, sizes)
    memory(handle, ctypes.byref(free), ctypes.byref(total))
    register = ggml_function("ggml_backend_dev_backend_reg", ctypes.c_void_p, ctypes.c_void_p)(handle)
    kind = ggml_function("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)(handle)
    return Device(
        _text("ggml_backend_reg_name", register),
        _text("ggml_backend_dev_name", handle),
        _text("ggml_backend_dev_description", handle).strip(),
        Kind(kind) if kind in list(Kind) else Kind.OTHER,
        free.value,
        total.value,
    )


def _text(function: str, handle: int) -> str:
    text = ggml_function(function, ctypes.c_char_p, ctypes.c_void_p)(handle)
    return text.decode("utf-8", errors="replace") if text else ""


def _answer() -> int:
    reply: dict[str, Any]
    try:
        reply, code = asdict(read_build()), 0
    except LocalspecError as error:
        reply, code = {"title": error.title, "cause": error.cause, "hint": error.hint}, error.exit_code
    sys.stdout.write(json.dumps(reply) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(_answer())
