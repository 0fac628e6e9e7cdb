"""Power: battery or mains, and counted energy."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from models.system.free_cores import FewerOnBattery, FreeCores
from models.system.power import EnergyMeter, on_battery


@pytest.mark.parametrize(
    ("battery", "found"),
    [
        (None, None),
        (SimpleNamespace(power_plugged=True), False),
        (SimpleNamespace(power_plugged=False), True),
        (SimpleNamespace(power_plugged=None), None),
    ],
)
def test_a_battery_is_used_while_nothing_is_plugged_in(
    monkeypatch: pytest.MonkeyPatch, battery: object, found: bool | None
) -> None:
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    assert on_battery() is found


def test_a_system_without_such_a_sensor_has_no_battery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(psutil, "sensors_battery", raising=False)
    assert on_battery() is None


def test_fewer_cores_are_used_on_battery_and_all_again_on_mains() -> None:
    now, unplugged = 0.0, False
    free = FreeCores(8, lambda: 0.0, lambda: now, lambda: unplugged)
    cores = FewerOnBattery(free, 4)
    assert cores.count() == 8
    unplugged, now = True, 1.0
    assert cores.count() == 8, "it looks again only after some seconds"
    now = 6.0
    assert (cores.count(), free.count()) == (4, 8)
    unplugged, now = False, 12.0
    assert cores.count() == 8


def write_package(folder: Path, name: str, energy: int, most: int = 999) -> Path:
    package = folder / name
    package.mkdir(exist_ok=True)
    (package / "energy_uj").write_text(f"{energy}\n")
    (package / "max_energy_range_uj").write_text(f"{most}\n")
    return package


def test_joules_of_all_packages_are_added_up_across_a_wrap(tmp_path: Path) -> None:
    write_package(tmp_path, "intel-rapl:0", 900)
    write_package(tmp_path, "intel-rapl:1", 100)
    write_package(tmp_path, "intel-rapl:0:0", 5)
    meter = EnergyMeter(tmp_path)
    write_package(tmp_path, "intel-rapl:0", 100)
    write_package(tmp_path, "intel-rapl:1", 300)
    write_package(tmp_path, "intel-rapl:0:0", 500)
    assert meter.joules() == pytest.approx(400e-6)
    assert meter.joules() == 0.0


def test_without_counters_nothing_is_said(tmp_path: Path) -> None:
    assert EnergyMeter(tmp_path).joules() is None
    assert EnergyMeter(tmp_path / "missing").joules() is None


def test_a_counter_that_can_not_be_read_any_more_gives_no_figure(tmp_path: Path) -> None:
    package = write_package(tmp_path, "intel-rapl:0", 1)
    meter = EnergyMeter(tmp_path)
    (package / "energy_uj").unlink()
    assert meter.joules() is None
