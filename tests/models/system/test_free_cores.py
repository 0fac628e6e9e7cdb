"""Cores that other programs leave free, on a clock and with a load of the test's."""

import pytest

from models.system.free_cores import FreeCores


class Machine:
    """A machine whose other programs hold a share of the cores."""

    def __init__(self, cores: int) -> None:
        self.now = 0.0
        self.share = 0.0
        self.asked = 0
        self.free = FreeCores(cores, self._others, lambda: self.now)

    def _others(self) -> float:
        self.asked += 1
        return self.share

    def after(self, seconds: float, share: float) -> int:
        """Return the free cores after so many seconds of this load, asked for every hundredth of a second."""
        self.share = share
        for _ in range(round(100 * seconds)):
            self.now += 0.01
            self.free.count()
        return self.free.count()


@pytest.mark.parametrize(
    ("cores", "share", "free"), [(2, 0.0, 2), (2, 0.33, 1), (2, 0.67, 1), (8, 0.125, 7), (8, 0.5, 4), (8, 0.99, 1)]
)
def test_as_many_cores_are_free_as_other_programs_leave(cores: int, share: float, free: int) -> None:
    machine = Machine(cores)
    assert machine.free.count() == cores, "before anything was measured"
    assert machine.after(3, share) == free
    assert machine.after(3, 0.0) == cores, "the machine is quiet again"


def test_a_short_burst_changes_nothing_and_a_load_that_stays_is_followed_within_a_second() -> None:
    machine = Machine(4)
    assert machine.after(0.25, 0.2) == 4
    assert machine.after(3, 0.0) == 4
    assert machine.after(1, 0.5) == 2


def test_after_a_pause_the_load_before_it_is_forgotten() -> None:
    machine = Machine(4)
    assert machine.after(3, 0.75) == 1
    machine.now += 60
    machine.share = 0.0
    assert machine.free.count() == 4


def test_the_system_is_asked_four_times_a_second_however_many_passes_there_are() -> None:
    machine = Machine(2)
    machine.after(10, 0.1)
    assert 30 <= machine.asked <= 40
