"""Passes use fewer threads while other programs hold cores, and no bit of their logits changes."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from checking import caught
from closed_form_head import write_closed_form_head
from fakes import FakeClock
from tiny_gguf import write_hybrid, write_llama

from app.engine.costs.half_threads import half_threads_cost
from app.engine.runtime import machine_measurements
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.loader import Loader
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.base import Logits
from models.heads.loading import join, load_head
from models.llama.exact_width import exact_threads
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.system.free_cores import FewerOnBattery, FreeCores

OPTIONS = LlamaOptions(context_size=1024, threads=4, batch_threads=4)


def scripted(counts: Sequence[int]) -> FreeCores:
    """Return free cores that change with every pass."""
    script = cycle(counts)

    class Scripted(FreeCores):
        def count(self) -> int:
            return next(script)

    return Scripted(4)


def rows_of(model: LlamaModel) -> list[Logits]:
    model.rewind(0)
    model.decode([1] * 60, rows=0)
    return [model.decode([token] * width, rows=width).copy() for token, width in ((3, 1), (4, 5), (5, 1), (6, 16))]


@pytest.mark.parametrize("write", [write_llama, write_hybrid])
def test_logits_are_the_same_while_the_number_of_threads_changes(write, tmp_path: Path) -> None:
    model = LlamaModel(write(tmp_path / "tiny.gguf"), OPTIONS)
    try:
        assert exact_threads(model)
        assert model.length == 0
        assert model.options == OPTIONS or model.options.threads == 4
        expected = rows_of(model)
        model._check_open().threads.free = scripted([1, 3, 2, 4])
        assert all(map(np.array_equal, rows_of(model), expected))
    finally:
        model.close()


class SumsByThreads(LlamaModel):
    """A model whose attention is summed in as many parts as there are threads."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        logits = super().decode(tokens, rows, parents)
        return logits + np.float32(1e-6) * self._check_open().threads._now[0]


def test_a_model_whose_sums_depend_on_threads_is_seen(tmp_path: Path) -> None:
    model = SumsByThreads(write_llama(tmp_path / "tiny.gguf"), OPTIONS)
    try:
        assert not exact_threads(model)
        assert model._check_open().threads._now == (4, 4)
        with caught():
            model._check_open().threads.free = scripted([4, 2])
            assert all(map(np.array_equal, rows_of(model), rows_of(model)))
            model._check_open().threads.free = scripted([4, 2, 1])
            assert all(map(np.array_equal, rows_of(model), rows_of(model)))
    finally:
        model.close()


def load(tmp_path: Path, options: LlamaOptions, *, strict: bool = False) -> LlamaModel:
    plan = LoadPlan(str(tmp_path / "tiny.gguf"), parse_drafter("off"), options, tmp_path / "memory.json", strict=strict)
    target = Loader(plan, AbortFlag(), FakeClock(0.001), lambda *_: None).target()
    assert isinstance(target, LlamaModel)
    return target


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> FreeCores:
    free = FreeCores(2, lambda: 0.0)
    for place in ("models.llama.model", "app.engine.runtime.machine_measurements"):
        monkeypatch.setattr(
            f"{place}.free_cores", lambda most=None: free if most is None else FewerOnBattery(free, most)
        )
    return free


@pytest.mark.usefixtures("two_cores")
def test_a_load_follows_free_cores_where_sums_allow_it_and_no_number_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_llama(tmp_path / "tiny.gguf")
    checks: list[bool] = []
    answer = True

    def checked(model: LlamaModel) -> bool:
        checks.append(answer and exact_threads(model))
        return checks[-1]

    monkeypatch.setattr(machine_measurements, "exact_threads", checked)
    follows = []
    for options, strict in (
        (LlamaOptions(context_size=256), False),
        (LlamaOptions(context_size=256), False),
        (LlamaOptions(context_size=256, threads=2), False),
        (LlamaOptions(context_size=256), True),
    ):
        target = load(tmp_path, options, strict=strict)
        follows.append(target.free_cores is not None)
        twin = target.twin()
        assert (twin.free_cores is not None) == follows[-1]
        twin.close()
        target.close()
    assert follows == [True, True, False, False]
    assert len(checks) == 1, "what was checked once is kept"
    answer = False
    (tmp_path / "memory.json").unlink()
    target = load(tmp_path, LlamaOptions(context_size=256))
    assert target.free_cores is None
    target.close()


@pytest.mark.parametrize(("cost", "threads"), [(1.05, 1), (1.3, 2)])
def test_half_of_the_threads_are_used_on_battery_where_that_costs_little(
    tmp_path: Path, two_cores: FreeCores, monkeypatch: pytest.MonkeyPatch, cost: float, threads: int
) -> None:
    write_llama(tmp_path / "tiny.gguf")
    monkeypatch.setattr(machine_measurements, "on_battery", lambda: False)
    monkeypatch.setattr(machine_measurements, "half_threads_cost", lambda *_: cost)
    monkeypatch.setattr(machine_measurements, "threads_of", lambda _: (2, 2))
    target = load(tmp_path, LlamaOptions(context_size=256))
    assert target.free_cores is not None
    counts = []
    for unplugged in (False, True, False):
        two_cores._battery, two_cores._power_at = (lambda unplugged=unplugged: unplugged), float("-inf")
        counts.append(target.free_cores.count())
    target.close()
    assert counts == [2, threads, 2]


def test_the_cost_of_half_of_the_threads_is_measured(tmp_path: Path) -> None:
    """The clock counts passes with one thread twice."""
    model = LlamaModel(write_llama(tmp_path / "tiny.gguf"), LlamaOptions(context_size=256, threads=2))
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 2.0 if model.options.threads == 1 else 1.0
        return now

    try:
        assert half_threads_cost(model, clock) == 2.0
        assert (model.length, model.options.threads) == (0, 2)
    finally:
        model.close()


@pytest.mark.usefixtures("two_cores")
def test_an_opened_context_keeps_following(tmp_path: Path) -> None:
    model = LlamaModel(write_llama(tmp_path / "tiny.gguf"), LlamaOptions(context_size=256))
    model.follow_free_cores()
    model.reopen(LlamaOptions(context_size=512))
    assert model._check_open().threads.free is model.free_cores is not None
    model.close()


@pytest.mark.parametrize(("threads", "follows"), [(0, True), (2, False)])
@pytest.mark.usefixtures("two_cores")
def test_a_draft_model_follows_free_cores_as_its_target_does(tmp_path: Path, threads: int, follows: bool) -> None:
    target, draft = write_llama(tmp_path / "tiny.gguf"), write_llama(tmp_path / "draft.gguf", seed=1)
    options = LlamaOptions(context_size=256, threads=threads)
    plan = LoadPlan(str(target), parse_drafter("off"), options, tmp_path / "memory.json")
    loader = Loader(plan, AbortFlag(), FakeClock(0.001), lambda *_: None)
    model = loader.target()
    drafter = loader.draft_model(str(draft), model)
    try:
        assert isinstance(drafter.model, LlamaModel)
        assert (drafter.model.free_cores is not None) == follows
    finally:
        drafter.close()
        model.close()


def test_a_head_follows_the_free_cores_of_its_target(tmp_path: Path) -> None:
    text = [(11 * place) % 251 for place in range(40)]
    path = write_llama(tmp_path / "tiny.gguf", n_layer=3)
    head_file = write_closed_form_head(tmp_path / "eagle3.gguf", path, text * 20, (0, 1, 2))
    target = LlamaModel(path, OPTIONS)
    target.free_cores = scripted([1])
    head = join(load_head(head_file, target), target)
    try:
        assert head._open._threads._now == (4, 4)
        target.decode(text, 1)
        head.decode(text[:-1], 1)
        assert head._open._threads._now == (1, 1)
    finally:
        head.close()
        target.close()
