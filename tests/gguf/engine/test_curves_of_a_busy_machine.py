"""Curves that were measured on a busy machine: later loads of the process use them for some minutes."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_gguf

from app.engine.runtime import machine_measurements
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.machine_measurements import MachineMeasurements
from drafters.registry import parse_drafter
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

OPTIONS = LlamaOptions(context_size=256, threads=1, extra_buffers=False)
WIDTHS = (1, 2, 4)


def measured(path: Path, memory: Path, clock: Callable[[], float] = time.perf_counter) -> tuple[dict[int, float], bool]:
    """Return the curve of a model that is loaded anew, and whether it was measured for that."""
    model, steps = LlamaModel(path, OPTIONS), list[str]()
    try:
        plan = LoadPlan(str(path), parse_drafter("off"), OPTIONS, memory)
        found = MachineMeasurements(plan, clock, lambda text, _: steps.append(text)).curve(model, WIDTHS)
        return found, any("measuring passes" in step for step in steps)
    finally:
        model.close()


def test_a_busy_machine_is_not_measured_at_each_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, memory = tiny_gguf.write_llama(tmp_path / "tiny.gguf"), tmp_path / "memory.json"
    monkeypatch.setattr(machine_measurements, "is_steady", lambda _: False)
    first, was_measured = measured(path, memory)
    assert was_measured
    assert measured(path, memory) == (first, False)
    later, was_measured = measured(path, memory, lambda: time.perf_counter() + 700)
    assert was_measured, "some minutes later the machine may be quiet"
    assert later.keys() == first.keys()
    assert not memory.exists(), "such a curve is not kept on disk"


def test_a_quiet_machine_keeps_its_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, memory = tiny_gguf.write_llama(tmp_path / "tiny.gguf", seed=9), tmp_path / "memory.json"
    monkeypatch.setattr(machine_measurements, "is_steady", lambda _: True)
    first, _ = measured(path, memory)
    assert memory.exists()
    machine_measurements._of_busy_machine.clear()
    assert measured(path, memory) == (first, False)
