"""The verify curve: between and beyond its widths, drifting with real passes, and measured on a clock that is ours."""

from collections.abc import Sequence

import pytest
from checking import FIXED, caught
from hypothesis import given
from hypothesis import strategies as st
from replay import VirtualClock

from app.engine.costs.pass_cost import QUICK_WIDTHS, VerifyCurve, is_steady, measure, measure_steady, timed_passes
from models.base import Logits
from models.errors import Cancelled
from models.toy import ToyModel

JAGGED = {1: 1.0, 2: 1.41, 3: 1.8, 4: 1.5, 8: 2.7, 16: 3.3}


def test_measured_widths_cost_what_was_measured_however_jagged() -> None:
    curve = VerifyCurve(JAGGED)
    assert {width: curve.seconds(width) for width in JAGGED} == JAGGED
    assert curve.ratio(4) < curve.ratio(3)


def test_between_two_widths_the_cost_lies_on_a_line_and_beyond_the_last_it_grows_in_proportion() -> None:
    curve = VerifyCurve(JAGGED)
    assert curve.seconds(6) == pytest.approx((1.5 + 2.7) / 2)
    assert curve.seconds(9) == pytest.approx(2.7 + 0.6 / 8)
    assert curve.seconds(24) == pytest.approx(3.3 * 24 / 16)
    assert VerifyCurve({1: 0.5}).seconds(3) == pytest.approx(1.5)


def test_measurements_of_further_widths_and_newer_ones_are_added() -> None:
    curve = VerifyCurve({4: 2.0, 1: 1.0})
    assert curve.seconds(32) == pytest.approx(16.0)
    curve.add({2: 1.2, 4: 1.8, 32: 9.0})
    assert list(curve.measured.items()) == [(1, 1.0), (2, 1.2), (4, 1.8), (32, 9.0)]
    assert curve.seconds(3) == pytest.approx(1.5)
    assert curve.seconds(32) == pytest.approx(9.0)


def slowed(factor: float, width: int, passes: int, curve: VerifyCurve | None = None) -> VerifyCurve:
    """Return a curve that saw so many passes of a width, each `factor` times as long as was measured."""
    curve = curve or VerifyCurve(JAGGED)
    for _ in range(passes):
        curve.observe(width, factor * JAGGED[width])
    return curve


@pytest.mark.parametrize("factor", [0.6, 1.3, 1.9])
def test_a_machine_that_slows_down_moves_the_whole_curve(factor: float) -> None:
    curve = slowed(factor, width=1, passes=60, curve=slowed(1.0, width=1, passes=10))
    for width, seconds in JAGGED.items():
        assert curve.seconds(width) == pytest.approx(factor * seconds, rel=0.02)
        assert curve.ratio(width) == pytest.approx(seconds), "what is dear by comparison is unchanged"


def test_a_width_that_alone_becomes_dearer_is_seen_to_be() -> None:
    curve = VerifyCurve(JAGGED)
    for _ in range(100):
        curve.observe(1, JAGGED[1])
        curve.observe(8, 1.5 * JAGGED[8])
    assert curve.ratio(8) == pytest.approx(1.5 * JAGGED[8], rel=0.08)
    assert curve.ratio(4) == pytest.approx(JAGGED[4], rel=0.01)
    assert curve.seconds(1) == pytest.approx(1.0, rel=0.1)


def test_a_machine_quicker_than_when_it_was_measured_is_taken_to_be_so_for_every_width() -> None:
    assert slowed(0.2, width=1, passes=10).ratio(2) == pytest.approx(JAGGED[2])


def test_a_table_too_cheap_for_one_token_may_be_right_about_the_others_until_they_are_seen() -> None:
    curve = slowed(1.5, width=1, passes=10)
    assert curve.seconds(1) == pytest.approx(1.5, rel=0.05)
    assert curve.ratio(2) < 0.8 * JAGGED[2]
    for width in (2, 3, 4, 8) * 4:
        curve.observe(width, 1.5 * JAGGED[width])
    assert curve.ratio(2) == pytest.approx(JAGGED[2], rel=0.08)


@pytest.mark.parametrize("wrong", [0.3, 0.6, 2.0, 5.0])
def test_a_table_wrong_about_one_token_is_corrected_by_three_passes(wrong: float) -> None:
    curve = VerifyCurve(JAGGED | {1: wrong})
    for width in (2, 3, 4, 8):
        curve.observe(width, JAGGED[width])
    for _ in range(3):
        curve.observe(1, 1.0)
    assert curve.ratio(4) == pytest.approx(JAGGED[4], rel=0.12)


def test_a_pass_of_one_token_is_due_when_none_was_seen_for_long() -> None:
    curve, seen = VerifyCurve(JAGGED), []
    for _ in range(100):
        seen.append(curve.one_is_due)
        curve.observe(1 if curve.one_is_due else 4, 1.0)
    due = [place for place, is_due in enumerate(seen) if is_due]
    assert due == [4, 9, 14, 19, 24, 49, 74, 99]


def test_a_price_once_seen_too_high_fades_while_the_width_is_not_used() -> None:
    curve = slowed(2.0, width=8, passes=20)
    wrong = curve.ratio(8)
    ratios = []
    for _ in range(600):
        curve.observe(1, curve.seconds(1))
        ratios.append(curve.ratio(8))
    assert wrong > 1.4 * JAGGED[8]
    assert ratios == sorted(ratios, reverse=True)
    assert curve.ratio(8) == pytest.approx(JAGGED[8], rel=0.05)


def narrow(slow: list[tuple[int, float]]) -> VerifyCurve:
    """Return the curve of a machine that is exact up to three tokens, after passes that took so many times longer."""
    curve = VerifyCurve({1: 1.0, 2: 1.7, 3: 2.4})
    for width, factor in [*[(1, 1.0)] * 10, (2, 1.0), *[(3, 1.0)] * 4, *slow]:
        curve.observe(width, factor * curve.measured[width])
    return curve


def test_one_slow_pass_does_not_raise_the_price_of_the_few_widths_there_are() -> None:
    assert narrow([(3, 1.9)]).ratio(3) < 1.1 * 2.4


@pytest.mark.parametrize("slow", [[(3, 2.0), (2, 2.4)], [(3, 2.0)] * 3 + [(2, 2.4)] * 3])
def test_few_widths_that_were_slow_for_a_while_are_looked_at_again(slow: list[tuple[int, float]]) -> None:
    curve, ratios = narrow(slow), []
    for _ in range(500):
        curve.observe(1, 1.0)
        ratios.append(curve.ratio(3))
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 1.1 * 2.4


def test_a_dear_pass_counts_once_however_many_of_one_token_come_after_it() -> None:
    curve = slowed(1.0, width=1, passes=40, curve=VerifyCurve({1: 1.0, 2: 1.7, 3: 2.4}))
    for factor in (2.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0):
        for width in (2, 3):
            curve.observe(width, factor * curve.measured[width])
            slowed(1.0, width=1, passes=4, curve=curve)
    assert curve.ratio(3) > 1.3 * curve.measured[3]
    # Of each width three were dear and four were not.
    slowed(1.0, width=1, passes=600, curve=curve)
    assert curve.ratio(3) == pytest.approx(curve.measured[3], rel=0.05)


def seen(*widths: int) -> VerifyCurve:
    """Return a curve that saw passes take what was measured."""
    curve = VerifyCurve(JAGGED)
    for width in widths:
        curve.observe(width, JAGGED[width])
    return curve


def test_of_a_pass_that_stalled_alone_its_own_time_counts() -> None:
    curve = seen(*[1] * 5, 2, 3, 4)
    before = [curve.seconds(width) for width in JAGGED]
    assert curve.observe(8, 30 * JAGGED[8]) == pytest.approx(JAGGED[8], rel=0.01)
    assert [curve.seconds(width) for width in JAGGED] == pytest.approx(before, rel=0.01)
    assert curve.observe(1, 30.0) == pytest.approx(30.0, rel=0.01), "two in a row are a machine that has changed"
    assert curve.observe(4, 2.5 * JAGGED[4]) == 2.5 * JAGGED[4], "and this is only slow"


@pytest.mark.parametrize("widths", [(), (1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 2, 2, 2), (2, 3, 4)])
def test_where_little_was_seen_the_table_may_be_what_is_wrong(widths: tuple[int, ...]) -> None:
    assert seen(*widths).observe(8, 30 * JAGGED[8]) == 30 * JAGGED[8]


def test_a_pass_that_waited_for_another_program_hardly_counts() -> None:
    double, endless = slowed(2.0, width=1, passes=1), slowed(1e6, width=1, passes=1)
    assert endless.seconds(1) == double.seconds(1) < 1.1
    assert slowed(1e-6, width=1, passes=1).seconds(1) > 0.9
    assert slowed(1e6, width=8, passes=1).seconds(8) < 1.25 * JAGGED[8]


# --- a table from a busy machine --------------------------------------------------------------------------------------

BUSY = {1: 5.0, 2: 5.2, 3: 5.1, 4: 5.6, 8: 6.0, 16: 7.0}
"""The jagged table, measured while another program held the cores."""


@pytest.mark.parametrize("widths", [(1, 1), (1, 3), (3, 3), (4, 1)])
def test_two_quick_passes_in_a_row_disprove_the_whole_table(widths: tuple[int, int]) -> None:
    curve = VerifyCurve(BUSY)
    for width in widths:
        curve.observe(width, JAGGED[width])
    assert curve.disturbed
    assert curve.seconds(1) <= 1.9 * JAGGED[1]
    assert all(curve.seconds(width) <= 1.9 * JAGGED[width] for width in JAGGED)


@pytest.mark.parametrize("width", [1, 3])
def test_one_quick_pass_disproves_nothing(width: int) -> None:
    curve = VerifyCurve(BUSY)
    curve.observe(width, JAGGED[width])
    curve.observe(8, BUSY[8])
    assert not curve.disturbed
    assert curve.seconds(1) > 0.8 * BUSY[1]


def test_a_one_token_pass_that_alone_was_slow_says_nothing_of_wider_ones() -> None:
    curve = VerifyCurve(JAGGED | {1: 5.0})
    curve.observe(1, JAGGED[1])
    curve.observe(1, JAGGED[1])
    assert curve.seconds(1) == pytest.approx(JAGGED[1], rel=0.1)
    assert curve.seconds(4) == pytest.approx(JAGGED[4], rel=0.12)


def test_a_table_that_is_right_is_never_disturbed() -> None:
    curve = VerifyCurve(JAGGED)
    for width in (1, 2, 3, 4, 8, 1, 16) * 5:
        curve.observe(width, 0.8 * JAGGED[width])
    assert not curve.disturbed
    assert VerifyCurve(JAGGED, disturbed=True).disturbed


def test_a_slow_table_with_nothing_corrected_keeps_drafting_at_a_loss() -> None:
    class Trusting(VerifyCurve):
        def _disprove(self, width: int, seconds: float) -> None:
            """Believe the table."""

    curve = Trusting(BUSY)
    for width in (3, 3, 3):
        curve.observe(width, JAGGED[width])
    # A pass of three tokens seems to cost less than one of one token: then no draft is too bad.
    assert curve.ratio(3) < 1
    with caught():
        assert curve.disturbed


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_clock_that_stood_still_teaches_nothing(seconds: float) -> None:
    curve = VerifyCurve(JAGGED)
    curve.observe(4, seconds)
    assert {width: curve.seconds(width) for width in JAGGED} == JAGGED


def test_several_passes_at_once_move_the_common_factor_alone() -> None:
    curve = VerifyCurve(JAGGED)
    assert curve.seconds(1) == 1.0
    curve.rescale(1.5)
    assert 1 < curve.seconds(1) < 1.5
    assert curve.ratio(8) == pytest.approx(JAGGED[8])
    capped, most = VerifyCurve(JAGGED), VerifyCurve(JAGGED)
    capped.rescale(1e9)
    most.rescale(2.0)
    assert capped.seconds(1) == most.seconds(1)


@FIXED
@given(st.lists(st.tuples(st.integers(1, 40), st.floats(1e-6, 1e3)), max_size=80))
def test_whatever_is_seen_every_width_has_a_price(passes: list[tuple[int, float]]) -> None:
    curve = VerifyCurve(JAGGED)
    for width, seconds in passes:
        curve.observe(width, seconds)
    assert all(curve.seconds(width) > 0 for width in range(1, 65))
    assert curve.measured == JAGGED, "what was measured stays what was measured"


class TimedToy(ToyModel):
    """A toy whose passes take what the test says, on a clock of the test's."""

    def __init__(self, clock: VirtualClock, seconds: dict[int, float] | None = None, context_size: int = 512) -> None:
        super().__init__(context_size=context_size)
        self.clock = clock
        self.times = seconds or {}
        self.passes: list[tuple[int, int]] = []
        """Tokens and rows of each pass."""
        self.slow_passes: dict[int, float] = {}
        """Seconds of single passes, by their number: a program that came between."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        self.passes.append((len(tokens), rows))
        usual = self.times.get(len(tokens), 0.01 * len(tokens))
        self.clock.now += self.slow_passes.get(len(self.passes), usual)
        return super().decode(tokens, rows, parents)


def test_each_width_is_measured_with_all_its_rows_and_the_cache_is_left_as_it_was() -> None:
    clock = VirtualClock()
    model = TimedToy(clock, {1: 0.010, 2: 0.014, 3: 0.018, 4: 0.015})
    model.decode([1, 2, 3], 1)
    before = list(model._cache)
    model.passes.clear()
    assert measure(model, clock, (1, 2, 3, 4)) == pytest.approx({1: 0.010, 2: 0.014, 3: 0.018, 4: 0.015})
    assert model._cache == before
    assert {rows for width, rows in model.passes} == {1, 2, 3, 4}
    assert all(width == rows for width, rows in model.passes)
    assert [width for width, _ in model.passes] == [1, 1, 1, 2, 3, 4] * 5, "a slow moment hits them all"


def test_what_is_read_is_measured_with_one_row_and_as_wide_as_the_model_reads() -> None:
    clock = VirtualClock()
    model = TimedToy(clock, {32: 0.02, 64: 0.03})
    assert (model.max_rows, model.batch_size) == (17, 64)
    assert measure(model, clock, (32, 64, 128), rows=1) == pytest.approx({32: 0.02, 64: 0.03})
    assert {rows for _, rows in model.passes} == {1}
    assert model.length == 0


def test_the_first_pass_warms_up_and_is_not_counted() -> None:
    clock = VirtualClock()
    model = TimedToy(clock, {1: 0.01})
    model.slow_passes = {1: 1.0, 2: 0.5}
    assert measure(model, clock, (1,)) == pytest.approx({1: 0.01})


def test_one_slow_pass_does_not_show() -> None:
    clock = VirtualClock()
    model = TimedToy(clock, {1: 0.01, 2: 0.02})
    model.slow_passes = {4: 0.5, 7: 0.5}
    assert measure(model, clock, (1, 2)) == pytest.approx({1: 0.01, 2: 0.02})


def test_every_width_is_timed_once_and_again_only_within_the_time_given() -> None:
    clock = VirtualClock()
    model = TimedToy(clock, dict.fromkeys(QUICK_WIDTHS, 1.0))
    fitting = [width for width in QUICK_WIDTHS if width <= model.max_rows]
    assert list(measure(model, clock, seconds=2.0)) == fitting
    # Two passes to warm up, one of each width, and of one token three, after which the time was found to be over.
    assert len(model.passes) == 2 + len(fitting) + 3
    quick = TimedToy(clock, dict.fromkeys(QUICK_WIDTHS, 0.001))
    measure(quick, clock, seconds=2.0)
    assert len(quick.passes) == 5 * (2 + len(fitting))


@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.0, 5.0])
def test_no_more_than_one_pass_is_made_when_the_time_is_over(seconds: float) -> None:
    clock = VirtualClock()
    model = TimedToy(clock)
    measure(model, clock, (1, 2, 4, 8), seconds)
    once = sum(0.01 * width for width in (1, 1, 1, 2, 4, 8))
    assert clock.now <= max(once, seconds) + 0.01 * (1 + 8)


def test_widths_that_the_model_can_not_take_are_left_out() -> None:
    clock = VirtualClock()
    model = TimedToy(clock)
    assert (model.max_rows, model.batch_size) == (17, 64)
    assert list(measure(model, clock, (1, 16, 17, 24, 64))) == [1, 16, 17]
    model.batch_size = 16
    assert list(measure(model, clock, (1, 16, 17))) == [1, 16]


def test_widths_that_the_rest_of_the_context_has_no_room_for_are_left_out() -> None:
    clock = VirtualClock()
    model = TimedToy(clock, context_size=20)
    model.decode([1] * 12, 0)
    assert list(measure(model, clock, (1, 4, 8, 9))) == [1, 4, 8]
    assert model.length == 12


@pytest.mark.parametrize("stop_at", [1, 2, 5])
def test_a_measurement_that_is_stopped_leaves_the_cache_as_it_was(stop_at: int) -> None:
    class Stopping(TimedToy):
        def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
            result = super().decode(tokens, rows, parents)
            if len(self.passes) == stop_at + 1:
                raise Cancelled("Stopped.")
            return result

    clock = VirtualClock()
    model = Stopping(clock)
    model.decode([1, 2, 3], 1)
    with pytest.raises(Cancelled):
        measure(model, clock, (1, 2, 4))
    assert model._cache == [1, 2, 3]


@pytest.mark.parametrize("model", [ToyModel(context_size=5), ToyModel(rewind_limit=0)], ids=["full", "no way back"])
def test_a_cache_that_passes_would_spoil_is_emptied_first(model: ToyModel) -> None:
    model.decode([3] * 5, rows=0)
    assert {*measure(model, VirtualClock(), (1, 2))} == {1, 2}
    assert model.length == 0


def test_passes_can_be_taken_one_by_one() -> None:
    clock = VirtualClock()
    model = TimedToy(clock, {1: 0.25, 2: 0.5})
    passes = timed_passes(model, clock, (1, 2, 99), repeats=2)
    assert next(passes) == (1, 0.25)
    assert list(passes) == [(2, 0.5), (1, 0.25), (2, 0.5)]
    assert model.length == 0


def test_a_pass_of_one_token_is_timed_after_another_as_plain_decoding_has_it() -> None:
    model = TimedToy(VirtualClock(), {1: 0.25, 2: 0.5})
    list(timed_passes(model, model.clock, (1, 2), repeats=3))
    assert [width for width, _ in model.passes] == [1, 1, 1, 2] * 3
    model.passes.clear()
    list(timed_passes(model, model.clock, (1,), repeats=3))
    assert len(model.passes) == 5, "the same width needs no preparing"


def test_a_table_taken_while_another_program_ran_is_told_from_a_jagged_one() -> None:
    assert is_steady({1: 1.0, 2: 1.4, 3: 1.8, 4: 1.5, 8: 2.7})
    assert is_steady({1: 1.0, 8: 1.7, 9: 3.9, 32: 4.7})
    assert not is_steady({1: 1.0, 2: 10.7, 3: 74.0, 4: 3.3, 8: 1.5})
    assert not is_steady({1: 4.0, 2: 1.4})


@pytest.mark.parametrize(("busy", "wanted"), [(0, 0.1), (6, 0.1), (12, 0.1), (18, 0.5)])
def test_a_table_taken_while_another_program_ran_is_taken_again_twice_at_most(busy: int, wanted: float) -> None:
    clock = VirtualClock()
    model = TimedToy(clock, {1: 0.1, 8: 0.2})
    # Five passes of one token in each measuring are timed, and one warms up. Others had luck.
    ones = [number for number in range(1, 60) if number % 20 in (1, 3, 7, 11, 15, 19)]
    model.slow_passes = dict.fromkeys(ones[:busy], 0.5)
    assert measure_steady(model, clock, (1, 8), seconds=100.0) == pytest.approx({1: wanted, 8: 0.2})
    assert len(model.passes) == 20 * min(3, 1 + busy // 6)
