"""A re-quantised copy is opened only in a way that was tried out in a child: its weights are of other kinds."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import app.tune.command as tune
from app.engine.tune_timer import Timer
from app.terminal import Terminal
from app.tune.command import Run, TunePlan
from models.llama_load import LlamaOptions


@pytest.mark.parametrize("safe", [True, False])
def test_a_copy_that_would_crash_when_rearranged_is_opened_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe: bool
) -> None:
    tried: list[Path] = []
    opened: list[LlamaOptions] = []
    monkeypatch.setattr(tune, "choose_extra_buffers", lambda path, _: tried.append(path) or safe)
    monkeypatch.setattr(tune, "LlamaModel", lambda _, options, **__: opened.append(options))
    plan = cast(TunePlan, SimpleNamespace(memory=tmp_path / "machine.json"))
    run, copy = Run(plan, Terminal(quiet=True), Timer(lambda: 0.0, 1.0)), tmp_path / "copy.gguf"
    run._open(copy, LlamaOptions(extra_buffers=True))
    run._open(copy, LlamaOptions(extra_buffers=False))
    assert [options.extra_buffers for options in opened] == [safe, False]
    assert tried == [copy]
