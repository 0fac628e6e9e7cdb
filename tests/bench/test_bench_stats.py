"""Arithmetic of the benchmark, against cases that were worked out by hand."""

import math
from itertools import product

import numpy as np
import pytest

from app.bench.measuring.arithmetic import gaps, geometric_mean, interval, oracle_speed_up, quantile
from app.engine.decoding.stats import ratio


def test_the_geometric_mean_treats_twice_and_half_alike() -> None:
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1)
    assert geometric_mean([1.0, 2.0, 4.0]) == pytest.approx(2)
    assert geometric_mean([]) is None


def test_quantiles_are_interpolated() -> None:
    assert quantile([4.0, 1.0, 2.0, 3.0], 0.5) == pytest.approx(2.5)
    assert quantile([float(i) for i in range(101)], 0.95) == pytest.approx(95)
    assert quantile([], 0.5) is None


def test_a_ratio_to_nothing_is_none() -> None:
    assert ratio(3, 2) == 1.5
    assert ratio(3, 0) is None


def test_the_interval_is_that_of_all_resamples_stretched_for_their_small_number() -> None:
    ratios = [1.0, 1.2, 2.0]
    means = sorted(sum(map(math.log, drawn)) / 3 for drawn in product(ratios, repeat=3))
    low, high = interval([ratios], resamples=20_000) or (0, 0)
    middle, stretch = sum(map(math.log, ratios)) / 3, 4.30265 / 1.96 * math.sqrt(3 / 2)
    # All 27 resamples are equally likely: the extreme ones have 1/27 each, more than the 2.5 % cut off.
    ends = [math.exp(middle + stretch * (mean - middle)) for mean in (means[0], means[-1])]
    assert [low, high] == pytest.approx(ends, rel=1e-4)
    assert interval([ratios]) == interval([ratios]), "the same ratios give the same interval"


@pytest.mark.parametrize(("groups", "size"), [(1, 4), (1, 12), (9, 4)])
def test_about_95_of_100_intervals_hold_the_mean(groups: int, size: int) -> None:
    dice = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        low, high = interval(np.exp(dice.normal(0.2, 0.3, (groups, size))).tolist(), resamples=400) or (0, 0)
        held += low <= math.exp(0.2) <= high
    assert 0.92 <= held / 400 <= 0.99


def test_the_interval_narrows_with_more_prompts_and_has_the_mean_inside() -> None:
    few, many = [1.0, 2.0] * 4, [1.0, 2.0] * 64
    (low, high), (lower, higher) = interval([few]) or (0, 0), interval([many]) or (0, 0)
    assert low < lower < math.sqrt(2) < higher < high


def test_every_group_weighs_the_same_and_is_resampled_by_itself() -> None:
    # Nothing varies inside a group: only mixing the groups could make the mean vary.
    low, high = interval([[1.0] * 9, [4.0] * 2]) or (0, 0)
    assert (low, high) == (pytest.approx(2), pytest.approx(2))


def test_what_cannot_vary_has_no_interval() -> None:
    assert interval([[1.0]]) is None
    assert interval([[1.0, 2.0], [3.0]]) is None
    assert interval([]) is None


def test_a_gap_is_averaged_over_the_window() -> None:
    rounds = [(9.0, 1), (1.0, 1), (3.0, 3), (1.0, 1)]
    # Arrivals after the first round: 1, 4, 4, 4, 5.
    assert gaps(rounds, window=1) == pytest.approx([1, 3, 0, 0, 1])
    assert gaps(rounds, window=2) == pytest.approx([2, 1.5, 0, 0.5])
    assert gaps(rounds, window=99) == pytest.approx([1]), "a short answer has one gap, over all of it"
    assert gaps([(9.0, 4)]) == []


def test_a_steady_pace_has_the_same_gap_however_its_tokens_come() -> None:
    assert gaps([(1.0, 1)] * 20) == pytest.approx([1.0] * 12)
    assert gaps([(4.0, 4)] * 7) == pytest.approx([1.0] * 17)


def test_the_oracle_takes_the_cheapest_sum_of_passes() -> None:
    jagged = {1: 1.0, 2: 1.4, 3: 1.8, 4: 1.5, 5: 3.0}
    assert oracle_speed_up(8, 5, jagged.__getitem__) == pytest.approx(8 / 3), "4 + 4"
    assert oracle_speed_up(7, 5, jagged.__getitem__) == pytest.approx(7 / 3.3), "4 + 3 costs less than 5 + 2"
    assert oracle_speed_up(8, 3, jagged.__getitem__) == pytest.approx(8 / (1.8 + 1.8 + 1.4))
    assert oracle_speed_up(1, 5, jagged.__getitem__) == 1
    assert oracle_speed_up(9, 1, jagged.__getitem__) == 1


def test_where_wide_passes_do_not_pay_the_oracle_is_plain_decoding() -> None:
    assert oracle_speed_up(50, 9, lambda width: float(width)) == pytest.approx(1)
    assert oracle_speed_up(50, 9, lambda width: 1.0 + 1.5 * (width - 1)) == pytest.approx(1)
