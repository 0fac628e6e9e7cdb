"""A re-quantised copy is opened only in a way that a child tried out, and deleted only when no process uses it."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tiny_gguf import write_llama

import app.tune.command as tune
from app.engine.costs.timer import Timer
from app.engine.costs.tuned import Setting, Tuned, TunedDraft
from app.shell.terminal import Terminal
from app.tune.command import TunePlan, TuneRun
from app.tune.measuring.draft_model import DraftFindings
from models.llama.load import LlamaOptions


@pytest.mark.parametrize("safe", [True, False])
def test_a_copy_that_would_crash_when_rearranged_is_opened_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe: bool
) -> None:
    tried: list[Path] = []
    opened: list[LlamaOptions] = []
    monkeypatch.setattr(tune, "choose_extra_buffers", lambda path, _, **__: tried.append(path) or safe)
    monkeypatch.setattr(tune, "LlamaModel", lambda _, options, **__: opened.append(options))
    plan = cast(TunePlan, SimpleNamespace(memory=tmp_path / "machine.json"))
    run, copy = TuneRun(plan, Terminal(quiet=True), Timer(lambda: 0.0, 1.0)), tmp_path / "copy.gguf"
    run._open(copy, LlamaOptions(extra_buffers=True))
    run._open(copy, LlamaOptions(extra_buffers=False))
    assert [options.extra_buffers for options in opened] == [safe, False]
    assert tried == [copy]


def test_a_copy_that_runs_without_given_threads_use_is_not_deleted(tmp_path: Path) -> None:
    used: list[Path | None] = []
    draft, copy = (write_llama(tmp_path / name) for name in ("draft.gguf", "copy.gguf"))
    for threads, choice in ((0, copy), (1, None), (0, None)):
        plan = SimpleNamespace(
            target=None, draft=draft, options=LlamaOptions(threads=threads), memory=tmp_path / "machine.json"
        )
        run = TuneRun(cast(TunePlan, plan), Terminal(quiet=True), Timer(lambda: 0.0, 1.0))
        run.target.tuned = Tuned(Setting(1, 1), 1, {1: 1.0}, 0, {0: 1.0})
        run.draft = DraftFindings(tuned=TunedDraft(Setting(1, 1), {0: 1.0}, choice))
        run._forget = used.append
        run._store()
    assert used == [copy, copy, None]
