"""What was measured about a model is found again by how it ran, not by the words it was asked for in."""

import json
import os
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tiny_gguf import write_llama

import models.llama.context
from app.engine.costs.tuned import Tuned, store_tuned
from app.engine.runtime.load import Loader, LoadPlan
from app.tune.measuring.target import default_setting
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel

UNLIKELY = 77
"""A width that is never read."""


def remembered(path: Path, memory: Path, threads: int = 1) -> set[str]:
    """Load a model, ask what its passes cost and how wide they are exact; return the names of all that is known."""
    plan = LoadPlan(str(path), parse_drafter("off"), LlamaOptions(context_size=512, threads=threads), memory)
    loader = Loader(plan, AbortFlag(), lambda: 0.0, lambda _, __: None)
    model = loader.target()
    try:
        loader.curve(model, [1, 2])
        loader.exact_width(model)
    finally:
        model.close()
    return {name for name in json.loads(memory.read_text()) if name.startswith(("curve ", "exact width "))}


def test_figures_of_another_cache_are_not_those_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, memory = write_llama(tmp_path / "tiny.gguf", n_embd=128), tmp_path / "machine.json"
    before = remembered(path, memory)
    assert remembered(path, memory) == before
    # As it was in an earlier version, or will be in a later one.
    monkeypatch.setattr(models.llama.context, "resolved", lambda *_, **__: ("q8_0", "q8_0"))
    after = remembered(path, memory)
    assert len(after) == 2 * len(before) > 0


def test_an_exact_width_that_was_seen_at_the_start_of_a_text_alone_is_measured_again(tmp_path: Path) -> None:
    """One-token passes deep in a text sum a float cache in parts; an earlier version never looked there."""
    path, memory = write_llama(tmp_path / "tiny.gguf", n_embd=128), tmp_path / "machine.json"
    options = LlamaOptions(context_size=1024, threads=1, cache_type_k="f16", cache_type_v="f16")
    loader = Loader(
        LoadPlan(str(path), parse_drafter("off"), options, memory), AbortFlag(), lambda: 0.0, lambda *_: None
    )
    model = loader.target()
    try:
        width = loader.exact_width(model)
        (key,) = [name for name in json.loads(memory.read_text()) if name.startswith("exact width ")]
        assert width < UNLIKELY
        memory.write_text(json.dumps({key.replace(" deep", ""): UNLIKELY}))
        assert Loader(loader.plan, AbortFlag(), lambda: 0.0, lambda *_: None).exact_width(model) == width
        memory.write_text(json.dumps({key: UNLIKELY}))
        again = Loader(loader.plan, AbortFlag(), lambda: 0.0, lambda *_: None)
        assert again.exact_width(model) == UNLIKELY
        memory.write_text(json.dumps({key: 1}))
        told = Loader(loader.plan, AbortFlag(), lambda: 0.0, lambda *_: None)
        told.drafting(parse_drafter("lookup"), model)
        assert [note for note in told.notes if "leave out -ctk" in note]
    finally:
        model.close()


def allow_cores(patch: pytest.MonkeyPatch, count: int) -> None:
    """Let this process have so many cores, as `taskset` does."""
    patch.setattr(psutil, "cpu_count", lambda **_: 4)
    patch.setattr(os, "sched_getaffinity", lambda _: range(count), raising=False)


def test_figures_of_another_number_of_threads_are_not_those_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, memory = write_llama(tmp_path / "tiny.gguf", n_embd=128), tmp_path / "machine.json"
    allow_cores(monkeypatch, 2)
    before = remembered(path, memory, threads=0)
    # Two threads are two threads, asked for or not.
    assert remembered(path, memory, threads=2) == before
    allow_cores(monkeypatch, 1)
    after = remembered(path, memory, threads=0)
    assert len(after) == 2 * len(before) > 0
    # Two threads on one core sum as on two, and wait for each other.
    assert len(remembered(path, memory, threads=2)) == 3 * len(before)
    allow_cores(monkeypatch, 2)
    assert remembered(path, memory, threads=0) == remembered(path, memory, threads=2)


def test_what_was_tuned_counts_more_than_what_a_first_load_measured(tmp_path: Path) -> None:
    path, memory = write_llama(tmp_path / "tiny.gguf", n_embd=128), tmp_path / "machine.json"
    options = LlamaOptions(context_size=512, threads=1)
    plan = LoadPlan(str(path), parse_drafter("off"), options, memory)
    remembered(path, memory)
    loader = Loader(plan, AbortFlag(), lambda: 0.0, lambda _, __: None)
    model = loader.target()
    assert isinstance(model, LlamaModel)
    try:
        setting = replace(default_setting(model.options), threads=1)
        store_tuned(memory, path, options, Tuned(setting, 1, {1: 5.0, 2: 7.0}, 16, {16: 5.0}))
        assert loader.curve(model, [1, 2]) == {1: 5.0, 2: 7.0}
        assert loader.exact_width(model) == 1, "deep in a text, where a first load does not look, nothing was exact"
        store_tuned(memory, path, options, Tuned(setting, UNLIKELY, {1: 5.0, 2: 7.0}, 16, {16: 5.0}))
        assert loader.exact_width(model) < UNLIKELY
    finally:
        model.close()
