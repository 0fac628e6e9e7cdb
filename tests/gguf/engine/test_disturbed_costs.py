"""Pass costs that were measured on a busy machine are kept, marked, and measured again in a quiet moment."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import FakeClock
from tiny_gguf import write_llama

from app.engine.costs.pass_cost import VerifyCurve
from app.engine.runtime import machine_measurements
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.machine_measurements import MachineMeasurements
from app.engine.runtime.worker import Worker
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.llama.load import LlamaOptions
from models.llama.model import LlamaModel
from models.system.remembered import Remembered

WIDTHS = (1, 2, 4)


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_measurements, "_last_measured", {})


@pytest.fixture
def plan(tmp_path: Path) -> LoadPlan:
    path = write_llama(tmp_path / "tiny.gguf")
    options = LlamaOptions(context_size=256, max_rows=8)
    return LoadPlan(str(path), parse_drafter("off"), options, tmp_path / "memory.json")


@pytest.fixture
def model(plan: LoadPlan) -> Iterator[LlamaModel]:
    loaded = LlamaModel(Path(plan.model), plan.options)
    yield loaded
    loaded.close()


class Machine:
    """Loads of one model, each on a machine whose other programs hold a share of the cores."""

    def __init__(self, plan: LoadPlan, model: LlamaModel) -> None:
        self._plan, self._model = plan, model
        self.measured: list[str] = []
        self.clock = FakeClock(0.001)

    def load(self, others: float) -> tuple[MachineMeasurements, VerifyCurve]:
        """Measure, or take what is stored."""
        seen = MachineMeasurements(
            self._plan, self.clock, lambda text, _: self.measured.append(text), others=lambda: others
        )
        return seen, seen.target_curve(self._model, WIDTHS)

    def stored(self) -> Remembered:
        return Remembered(self._plan.memory)


def test_a_disturbed_curve_is_used_and_measured_again_once_the_machine_is_quiet(
    plan: LoadPlan, model: LlamaModel
) -> None:
    machine = Machine(plan, model)
    assert machine.load(others=0.6)[1].disturbed
    assert len(machine.measured) == 1
    assert machine.load(others=0.6)[1].disturbed, "the machine is still busy, so a new measurement is no better"
    assert len(machine.measured) == 1
    assert machine.load(others=0.0)[1].disturbed, "a server that changes models does not measure at each load"
    assert len(machine.measured) == 1
    machine.clock.calls += 700_000
    assert not machine.load(others=0.0)[1].disturbed
    assert len(machine.measured) == 2
    assert not machine.load(others=0.6)[1].disturbed
    assert len(machine.measured) == 2


def test_passes_that_disprove_a_stored_curve_have_it_measured_again(plan: LoadPlan, model: LlamaModel) -> None:
    machine = Machine(plan, model)
    seen, curve = machine.load(others=0.0)
    seen.doubt([(model, curve)])
    assert len(machine.measured) == 1
    assert not machine.load(others=0.0)[1].disturbed, "no pass spoke against it"
    assert len(machine.measured) == 1
    for _ in range(2):
        curve.observe(1, 0.1 * curve.measured[1])
    seen.doubt([(model, curve)])
    assert machine.load(others=0.9)[1].disturbed
    assert not machine.load(others=0.0)[1].disturbed
    assert len(machine.measured) == 2


def test_an_implausible_curve_is_marked_though_the_machine_seemed_quiet(
    plan: LoadPlan, model: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(plan, model)
    monkeypatch.setattr(machine_measurements, "is_steady", lambda _: False)
    assert machine.load(others=0.0)[1].disturbed
    assert machine.load(others=0.0)[1].disturbed
    assert len(machine.measured) == 1


@pytest.mark.parametrize("quick", [True, False])
def test_costs_that_answers_have_disproved_are_doubted_when_the_models_are_left(
    plan: LoadPlan, monkeypatch: pytest.MonkeyPatch, quick: bool
) -> None:
    monkeypatch.setattr("app.engine.runtime.loader.OtherPrograms", lambda: lambda: 0.0)
    worker = Worker(replace(plan, drafter=parse_drafter("suffix")), AbortFlag(), FakeClock(0.001))
    list(worker.load(lambda *_: None))
    adaptive = worker._slot.drafting.adaptive
    assert adaptive is not None
    curve = adaptive.state.curve
    for _ in range(2):
        curve.observe(1, (0.1 if quick else 1.0) * curve.measured[1])
    worker.close()
    records = Remembered(plan.memory)
    curves = [records.get_table(key) for key in records._all() if key.startswith("curve")]
    assert [bool(table and "disturbed" in table) for table in curves] == [quick]
