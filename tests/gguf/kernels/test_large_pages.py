"""Buffers of llama.cpp in large pages: those of weights are asked for them, and small ones are not."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from models.llama.bindings import ggml_function, kernels, llama_cpp

_STATE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
pytestmark = pytest.mark.skipif(not _STATE.exists(), reason="this system has no large pages to ask for")
_ROOT = Path(__file__).parents[3]
_ALONE = """
import sys
sys.path.append("tests/gguf/kernels")
from test_large_pages import _flags, llama_cpp
llama_cpp()
print(*_flags(int(sys.argv[1])))
"""
_ASKED = "hg"
"""What a mapping's flags have in /proc when large pages were asked for, given or not."""


@pytest.fixture(autouse=True)
def _kernels() -> None:
    llama_cpp()
    if kernels().library is None:
        pytest.skip(f"no kernels of our own here: {kernels().reason}")


def _flags(size: int) -> set[str]:
    """Allocate a buffer as llama.cpp does; return the flags of the mapping that it is in."""
    pointer = ctypes.c_void_p
    kind = ggml_function("ggml_backend_cpu_buffer_type", pointer)()
    buffer = ggml_function("ggml_backend_buft_alloc_buffer", pointer, pointer, ctypes.c_size_t)(kind, size)
    assert buffer
    try:
        return _flags_at(ggml_function("ggml_backend_buffer_get_base", pointer, pointer)(buffer))
    finally:
        ggml_function("ggml_backend_buffer_free", None, pointer)(buffer)


def _flags_at(address: int) -> set[str]:
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            start, end = (int(place, 16) for place in first.split("-"))
            inside = start <= address < end
        elif inside and first == "VmFlags:":
            return set(line.split()[1:])
    raise AssertionError(f"nothing is mapped at {address:#x}")


def test_a_buffer_as_large_as_those_of_weights_is_asked_for_in_large_pages() -> None:
    assert _ASKED in _flags(100 << 20)


def test_a_small_one_is_not() -> None:
    def is_asked_for(size: int) -> bool:
        # In a process of its own: memory that a large buffer had keeps the mark when a small one gets it.
        command = [sys.executable, "-c", _ALONE, str(size)]
        told = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
        flags = told.split()
        assert "rd" in flags, "it can be read"
        return _ASKED in flags

    assert is_asked_for(100 << 20)
    assert not is_asked_for(1 << 20)
