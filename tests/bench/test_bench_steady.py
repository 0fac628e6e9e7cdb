"""Speed-ups at usual prices, on answers whose figures can be worked out by hand."""

from dataclasses import replace

import pytest
from bench_fakes import answer

from app.bench.measuring.arithmetic import interval
from app.bench.measuring.arms import ArmAnswer
from app.bench.measuring.steady import steady, steady_speed_ups

PLAIN = [answer("off", "p", [(1.0, 1)] * 12), answer("off", "q", [(2.0, 1)] * 12)]
MEASURED = {1: 1.0, 2: 1.5, 4: 2.0, 8: 4.0}


def beside(*answers: ArmAnswer) -> dict[str, float]:
    return steady_speed_ups(answers, PLAIN, MEASURED.__getitem__)


def test_passes_count_as_multiples_of_the_plain_pass_of_their_prompt() -> None:
    assert beside(answer("a", "p", [(2.0, 4)] * 3), answer("a", "q", [(4.0, 4)] * 3)) == {
        "p": pytest.approx(2),
        "q": pytest.approx(2),
    }


def test_a_disturbed_pass_counts_as_any_other_of_its_width() -> None:
    calm = [(2.0, 4)] * 6
    found = beside(answer("a", "p", calm), answer("a", "q", [(4.0, 4)] * 5 + [(400.0, 4)]))
    assert found == {"p": pytest.approx(2), "q": pytest.approx(2)}


def test_a_disturbed_plain_answer_makes_nothing_faster() -> None:
    plain = [answer("off", "p", [(1.0, 1)] * 9 + [(50.0, 1)] * 3)]
    found = steady_speed_ups([answer("a", "p", [(2.0, 4)] * 3)], plain, MEASURED.__getitem__)
    assert found == {"p": pytest.approx(2)}


def test_passes_that_are_dearer_with_the_arm_cost_it_that() -> None:
    found = beside(answer("a", "p", [(1.25, 1)] * 12), answer("a", "q", [(2.5, 1)] * 12))
    assert found == {"p": pytest.approx(0.8), "q": pytest.approx(0.8)}


def test_what_the_drafter_took_counts_as_it_was() -> None:
    arm = answer("a", "p", [(3.0, 4)] * 2 + [(10.0, 4)], drafting=(1.0, 1.0, 8.0))
    assert beside(arm) == {"p": pytest.approx(12 / (3 * 2 + 10))}


def test_a_rare_width_is_priced_by_the_curve_and_by_its_nearest_neighbours() -> None:
    # Passes of four were twice as dear as was measured, those of one were not; the only one of eight was disturbed.
    rounds = [(1.0, 1)] * 20 + [(4.0, 4)] * 9 + [(80.0, 8)]
    found = beside(answer("a", "p", rounds))
    assert found == {"p": pytest.approx((20 + 36 + 8) / (20 * 1 + 9 * 4 + 8))}


def test_all_turns_of_a_prompt_count_as_one() -> None:
    plain = [*PLAIN, replace(PLAIN[0], turn=1)]
    arm = [answer("a", "p", [(2.0, 4)] * 3), answer("a", "p", [(1.0, 1)] * 12, turn=1)]
    assert steady_speed_ups(arm, plain, MEASURED.__getitem__) == {"p": pytest.approx(24 / (6 + 12))}


def test_a_prompt_without_a_plain_answer_is_left_out() -> None:
    assert beside(answer("a", "p", [(2.0, 4)] * 3), answer("a", "x", [(2.0, 4)] * 3)).keys() == {"p"}
    assert steady({}) is None


def test_a_class_has_a_mean_an_interval_and_a_worst_prompt() -> None:
    found = steady({"p": 1.0, "q": 4.0})
    assert found is not None
    assert found.speed_up == pytest.approx(2)
    assert found.interval == interval([[1.0, 4.0]])
    assert found.worst == ("p", 1.0)
