"""What llama.cpp says of itself and its devices, asked here and in a child that may die of it."""

import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

import models.llama.devices
from models.abort import AbortFlag
from models.errors import LocalspecError
from models.llama.devices import Build, Device, Kind, ask_child, build_of, gpus, in_use, read_build

GIB = 1 << 30
CPU = Device("CPU", "CPU", "a processor", Kind.PROCESSOR, 8 * GIB, 16 * GIB)
CUDA = Device("CUDA", "CUDA0", "a card", Kind.GPU, 20 * GIB, 24 * GIB)
INTEGRATED = Device("Vulkan", "Vulkan0", "on the chip", Kind.INTEGRATED, 6 * GIB, 8 * GIB)
BLAS = Device("BLAS", "BLAS", "OpenBLAS", Kind.ACCELERATOR, 0, 0)
DIE = "import os, resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), {})"
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals and resource limits are POSIX")


def child(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)


def test_the_library_tells_its_features_and_the_processor_with_its_memory() -> None:
    build = read_build()
    processor = next(device for device in build.devices if device.kind is Kind.PROCESSOR)
    assert processor.total == pytest.approx(psutil.virtual_memory().total, rel=0.01)
    assert (processor.back_end, processor.shares_memory) == ("CPU", False)
    assert "CPU" in build.back_ends
    assert len(build.features["CPU"]) > 1
    assert any(Path(build.library).iterdir())


def test_a_child_says_the_same() -> None:
    here, there = read_build(), ask_child()
    assert replace(there, devices=()) == replace(here, devices=())
    assert [device.name for device in there.devices] == [device.name for device in here.devices]


@pytest.mark.parametrize(
    ("said", "features"),
    [
        ("CPU : SSE3 = 1 | AVX = 1 | ", {"CPU": ("SSE3", "AVX")}),
        ("CUDA : ARCHS = 890 | CPU : AVX2 = 1 | ", {"CUDA": ("ARCHS=890",), "CPU": ("AVX2",)}),
        ("", {}),
        ("CPU : ", {}),
        ("nonsense", {}),
    ],
)
def test_features_are_read_by_back_end(said: str, features: dict[str, tuple[str, ...]]) -> None:
    assert models.llama.devices._features(said) == features


def test_a_build_comes_back_as_it_was_sent() -> None:
    build = Build({"CPU": ("AVX",), "CUDA": ()}, ("CUDA", "CPU"), (CUDA, CPU, BLAS), "/lib")
    assert build_of(asdict(build)) == build


@pytest.mark.parametrize(
    ("devices", "used"),
    [
        ((CPU,), ()),
        ((CPU, BLAS), ()),
        ((CUDA, CPU), (CUDA,)),
        ((INTEGRATED, CUDA, CPU), (CUDA,)),
        ((INTEGRATED, CPU), (INTEGRATED,)),
        ((CUDA, replace(CUDA, name="CUDA1")), (CUDA, replace(CUDA, name="CUDA1"))),
    ],
)
def test_integrated_gpus_are_used_where_there_are_no_others(
    devices: tuple[Device, ...], used: tuple[Device, ...]
) -> None:
    assert in_use(devices) == used


def test_metal_has_the_machines_own_memory() -> None:
    assert [device.shares_memory for device in (CUDA, INTEGRATED, replace(CUDA, back_end="MTL"))] == [False, True, True]


# --- the GPUs of a build ----------------------------------------------------------------------------------------------


def build_with(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Lay out an installed engine with libraries of these names."""
    package = folder / "llama_cpp"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in names:
        (package / "lib" / name).touch()
    monkeypatch.delitem(sys.modules, "llama_cpp", raising=False)
    monkeypatch.syspath_prepend(folder)


def test_a_build_without_gpus_is_not_even_loaded() -> None:
    code = "import sys; from models.llama.devices import gpus; print(gpus(), 'llama_cpp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "() False\n"


@pytest.mark.parametrize(
    ("library", "asked"),
    [
        ("libggml-cuda.so", True),
        ("ggml-vulkan.dll", True),
        ("libggml-metal.dylib", True),
        ("libggml-cpu-haswell.so", False),
        ("libggml-blas.so", False),
        ("libggml-base.so.0.25.3", False),
    ],
)
def test_a_build_is_asked_where_it_has_a_library_for_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, asked: bool
) -> None:
    build_with(tmp_path, monkeypatch, "libggml.so", "libllama.so", "libggml-cpu.so", library)
    monkeypatch.setattr(models.llama.devices, "llama_cpp", lambda: None)
    monkeypatch.setattr(models.llama.devices, "_devices", lambda: (INTEGRATED, CUDA, CPU))
    assert gpus() == ((CUDA,) if asked else ())


def test_an_engine_that_can_not_be_loaded_has_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_with(tmp_path, monkeypatch, "libggml-cuda.so")

    def broken() -> None:
        raise LocalspecError("broken")

    monkeypatch.setattr(models.llama.devices, "llama_cpp", broken)
    assert gpus() == ()


# --- a child that fails -----------------------------------------------------------------------------------------------


@posix_only
@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (DIE.format("signal.SIGILL"), "code -4"),
        (DIE.format("signal.SIGSEGV"), "code -11"),
        ("raise SystemExit(3)", "code 3"),
        ("print('[1, 2]'); raise SystemExit(1)", "code 1"),
        ("import time; time.sleep(60)", "did not answer"),
    ],
)
def test_a_child_that_dies_or_hangs_becomes_a_sentence_with_a_remedy(code: str, cause: str) -> None:
    with pytest.raises(LocalspecError) as failure:
        ask_child(child(code), seconds=1 if "sleep" in code else 30)
    assert cause in failure.value.cause
    assert failure.value.hint


def test_kernels_are_compiled_before_an_answer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # A child that took longer than an answer may take was killed at it, and so was the next one.
    done: list[AbortFlag] = []
    monkeypatch.setattr(models.llama.devices, "compile_kernels", done.append)
    with pytest.raises(LocalspecError, match="can't be used"):
        ask_child(child("raise SystemExit(3)"))
    assert len(done) == 1


def test_what_a_child_complains_of_is_passed_on_and_its_chatter_is_not() -> None:
    code = 'print("driver loaded"); print(\'{"title": "T", "cause": "C", "hint": "H"}\'); raise SystemExit(1)'
    with pytest.raises(LocalspecError) as failure:
        ask_child(child(code))
    assert (failure.value.title, failure.value.cause, failure.value.hint) == ("T", "C", "H")


def test_a_package_that_can_not_be_imported_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llama_cpp").mkdir()
    (tmp_path / "llama_cpp/__init__.py").write_text("raise ImportError('libllama.so: cannot open')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path.cwd())]))
    with pytest.raises(LocalspecError) as failure:
        ask_child()
    assert "libllama.so: cannot open" in failure.value.cause
    assert "--reinstall-package llama-cpp-python" in failure.value.hint
