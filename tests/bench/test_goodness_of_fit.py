"""Tests and bounds on counts: special functions against sums, p-values and bounds against simulation."""

import math
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from checking import caught
from numpy.typing import NDArray

from app.bench.measuring.goodness_of_fit import (
    Cells,
    Goodness,
    beta_share,
    binomial_p,
    binomial_tail,
    chance_bound,
    chance_interval,
    chi_square_tail,
    distance,
    distance_bound,
    gamma_tail,
    goodness,
    holm,
    pooled,
    student_width,
)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0, 5.0, 20.0, 90.0, 300.0])
def test_the_chi_square_tail_of_even_freedom_is_a_poisson_sum(value: float) -> None:
    for half in (1, 2, 7, 40):
        terms = (math.exp(-value / 2 + k * math.log(max(value, 1e-9) / 2) - math.lgamma(k + 1)) for k in range(half))
        assert chi_square_tail(value, 2 * half) == pytest.approx(1.0 if value == 0 else sum(terms), rel=1e-9)


@pytest.mark.parametrize("value", [0.1, 1.0, 4.0, 30.0, 200.0])
def test_the_chi_square_tail_of_one_is_that_of_the_normal_distribution(value: float) -> None:
    assert chi_square_tail(value, 1) == pytest.approx(math.erfc(math.sqrt(value / 2)), rel=1e-9)


def test_the_gamma_tail_is_whole_at_zero_and_falls() -> None:
    values = [gamma_tail(3.5, x) for x in np.linspace(0, 40, 400)]
    assert values[0] == 1
    assert all(before > after > 0 for before, after in pairwise(values))


@pytest.mark.parametrize("trials", [1, 5, 30, 400])
@pytest.mark.parametrize("chance", [0.001, 0.3, 0.5, 0.97])
def test_the_binomial_tail_is_a_sum(trials: int, chance: float) -> None:
    p, tail = Fraction(chance), Fraction(0)
    assert binomial_tail(trials + 1, trials, chance) == 0
    for hits in range(trials, -1, -1):
        tail += math.comb(trials, hits) * p**hits * (1 - p) ** (trials - hits)
        assert binomial_tail(hits, trials, chance) == pytest.approx(float(tail), rel=1e-8, abs=1e-290)


def test_the_beta_share_ends_at_0_and_1() -> None:
    assert [beta_share(x, 2, 3) for x in (-0.1, 0.0, 1.0, 1.1)] == [0, 0, 1, 1]


def test_too_many_and_too_few_hits_are_equally_surprising_and_none_more_than_certain() -> None:
    assert binomial_p(90, 100, 0.5) == pytest.approx(binomial_p(10, 100, 0.5), rel=1e-9)
    assert binomial_p(90, 100, 0.5) == pytest.approx(2 * binomial_tail(90, 100, 0.5), rel=1e-9)
    assert binomial_p(50, 100, 0.5) == 1
    assert (binomial_p(3, 3, 1.0), binomial_p(0, 3, 0.0), binomial_p(1, 3, 0.0)) == (1, 1, 0)


def coverage(bounds: list[tuple[float, float]], chance: float) -> float:
    """Return the chance that the bounds, one for each number of hits, hold."""
    trials = len(bounds) - 1
    held = (hits for hits, (low, high) in enumerate(bounds) if low <= chance <= high)
    return sum(math.comb(trials, hits) * chance**hits * (1 - chance) ** (trials - hits) for hits in held)


def check_coverage(bounds: list[tuple[float, float]]) -> None:
    assert min(coverage(bounds, chance) for chance in np.linspace(0, 1, 501)) >= 0.99


def test_intervals_and_bounds_of_a_chance_hold_with_their_confidence_for_every_chance() -> None:
    check_coverage([chance_interval(hits, 40) for hits in range(41)])
    check_coverage([(0.0, chance_bound(hits, 40)) for hits in range(41)])
    with caught():
        check_coverage([(0.0, 0.98 * chance_bound(hits, 40)) for hits in range(41)])


def test_no_hit_at_all_has_a_bound_that_can_be_written_down() -> None:
    assert chance_bound(0, 20_000) == pytest.approx(1 - 0.01 ** (1 / 20_000), rel=1e-9)
    assert chance_bound(7, 7) == 1
    assert chance_interval(0, 50) == (0, pytest.approx(1 - 0.005 ** (1 / 50), rel=1e-9))
    assert chance_interval(50, 50) == (pytest.approx(0.005 ** (1 / 50), rel=1e-9), 1)


def test_rare_outcomes_share_a_cell() -> None:
    cells = pooled({"a": 60, "b": 33, "c": 3, "d": 4}, {"a": 0.6, "b": 0.28, "c": 0.07, "d": 0.05})
    assert cells is not None
    assert cells.observed.tolist() == [60, 33, 3, 4]
    assert cells.probs.tolist() == pytest.approx([0.6, 0.28, 0.07, 0.05])
    cells = pooled({"a": 70, "b": 22, "c": 4, "x": 4}, {"a": 0.7, "b": 0.2, "c": 0.04})
    # c is expected four times, x is not listed.
    assert cells is not None
    assert cells.observed.tolist() == [70, 22, 8]
    assert cells.probs.tolist() == pytest.approx([0.7, 0.2, 0.1])


def test_a_rest_that_is_rare_itself_goes_to_the_rarest_cell() -> None:
    cells = pooled({"a": 70, "b": 27, "c": 3}, {"a": 0.7, "b": 0.27, "c": 0.03})
    assert cells is not None
    assert (cells.observed.tolist(), cells.samples) == ([70, 30], 100)
    assert cells.probs.tolist() == pytest.approx([0.7, 0.3])
    assert cells.expected.tolist() == pytest.approx([70, 30])


def test_with_one_cell_there_is_nothing_to_compare() -> None:
    assert pooled({"a": 100}, {"a": 1.0}) is None
    assert pooled({"a": 99, "b": 1}, {"a": 0.99, "b": 0.01}) is None
    assert pooled({"a": 4}, {"a": 0.5, "b": 0.5}) is None
    assert goodness([], 100, 0) is None


def cells(observed: list[int], probs: list[float]) -> Cells:
    return Cells(np.array(observed), np.array(probs))


def test_the_statistics_are_those_of_the_books() -> None:
    found = goodness([cells([30, 70], [0.4, 0.6]), cells([10, 10, 10], [1 / 3] * 3)], 100, 0)
    assert found is not None
    assert (found.samples, found.cells) == (130, 5)
    assert found.chi_square == pytest.approx(100 / 40 + 100 / 60)
    assert found.g == pytest.approx(2 * (30 * math.log(30 / 40) + 70 * math.log(70 / 60)))
    # Freedom is 1 + 2.
    assert found.chi_square_p == pytest.approx(chi_square_tail(found.chi_square, 3))
    assert found.g_p == pytest.approx(chi_square_tail(found.g, 3))


def test_an_empty_cell_counts_in_both_statistics() -> None:
    found = goodness([cells([10, 0], [0.5, 0.5])], 50_000, 0)
    assert found is not None
    assert (found.chi_square, found.g) == (pytest.approx(10), pytest.approx(20 * math.log(2)))
    # All heads or all tails, by Monte Carlo.
    assert found.chi_square_p == pytest.approx(2 / 1024, rel=0.3)
    assert found.g_p == pytest.approx(2 / 1024, rel=0.3)


def test_a_suspicious_p_is_never_below_what_the_draws_can_show() -> None:
    found = goodness([cells([1000, 0], [0.5, 0.5])], 999, 0)
    assert found is not None
    assert (found.chi_square_p, found.g_p) == (0.001, 0.001)


def drawn_in(pieces: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Goodness | None, int]:
    """Return what Monte Carlo finds of 200 cells with so many counts at once, and the most bytes it takes."""
    monkeypatch.setattr("app.bench.measuring.goodness_of_fit._AT_ONCE", pieces)
    observed = np.full(200, 10)
    observed[:10] += 17
    tracemalloc.start()
    try:
        return goodness([Cells(observed, np.full(200, 1 / 200))], 2000, 0), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_many_cells_and_many_draws_take_no_more_memory_than_the_counts_drawn_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, all_bytes = drawn_in(1 << 22, monkeypatch)
    # Not even one draw; a piece that does not come out even.
    for pieces in (1, 200 * 300):
        found, most_bytes = drawn_in(pieces, monkeypatch)
        assert found == whole
        assert most_bytes < all_bytes / 4
    assert all_bytes > 2000 * 200 * 8
    assert whole is not None
    assert 1 / 2001 < whole.chi_square_p < 1


def rejected(level: float, probs: NDArray[np.float64], samples: int, runs: int) -> tuple[float, float]:
    """Return how often chance alone gives p-values of at most `level`, by statistic."""
    random = np.random.default_rng(5)
    hits = np.zeros(2)
    for seed in range(runs):
        found = goodness([Cells(random.multinomial(samples, probs), probs)], 2000, seed)
        assert found is not None
        hits += (found.chi_square_p <= level, found.g_p <= level)
    return float(hits[0]) / runs, float(hits[1]) / runs


def test_small_p_values_are_as_rare_as_they_say_also_with_five_expected() -> None:
    probs = np.array([0.9, *[0.01] * 10])
    # Among 2,000 runs at .005 there are ten, give or take three times three.
    assert max(rejected(0.005, probs, 500, 2000)) <= 0.01


def test_holm_stops_at_the_first_that_chance_explains() -> None:
    values = {"a": 0.015, "b": 0.03, "c": 0.031, "d": 0.0001}
    assert holm(values, 0.05) == ["d", "a"]
    assert holm(values, 0.2) == ["d", "a", "b", "c"]
    assert holm({"a": 0.02}, 0.01) == []
    assert holm({}, 0.01) == []


def test_the_distance_is_half_the_sum_of_differences() -> None:
    assert distance({"a": 6, "b": 4}, {"a": 0.5, "b": 0.5}) == pytest.approx(0.1)
    assert distance({"a": 10}, {"a": 0.5, "b": 0.5}) == pytest.approx(0.5)
    assert distance({"x": 10}, {"a": 1.0}) == 1
    # What is not listed counts as one: here 20 % where 30 % should be.
    assert distance({"a": 8, "x": 1, "y": 1}, {"a": 0.7}, 0.3) == pytest.approx(0.1)


LAWS = [
    ([0.5, 0.5], [0.5, 0.5]),
    ([0.5, 0.5], [0.6, 0.4]),
    ([0.9, 0.1, 0.0], [0.7, 0.1, 0.2]),
    ([1 / 20] * 20, [0.04, 0.06] * 10),
    ([1 / 20] * 20, [0.1, 0.0] * 10),
]
"""Chances as they should be, and as they are."""


def held(bound: Callable[[float, int], float], should: list[float], are: list[float], samples: int) -> float:
    """Return how often a bound holds, over many simulated runs."""
    drawn = np.random.default_rng(1).multinomial(samples, are, size=4000)
    truth = 0.5 * np.abs(np.array(should) - are).sum()
    measured = 0.5 * np.abs(drawn / samples - np.array(should)).sum(axis=1)
    return float(np.mean([bound(float(one), samples) >= truth for one in measured]))


@pytest.mark.parametrize(("should", "are"), LAWS)
@pytest.mark.parametrize("samples", [20, 400, 5000])
def test_the_bound_on_the_distance_holds(should: list[float], are: list[float], samples: int) -> None:
    assert held(distance_bound, should, are, samples) >= 0.99


def test_without_its_margin_the_bound_would_not_hold() -> None:
    def half_the_margin(measured: float, samples: int) -> float:
        return (measured + distance_bound(measured, samples)) / 2

    with caught():
        assert held(half_the_margin, *LAWS[1], 400) >= 0.99


def test_the_bound_over_several_places_holds_too() -> None:
    random, samples = np.random.default_rng(2), [50, 200]
    laws = [(np.array(should), np.array(are)) for should, are in (LAWS[1], LAWS[4])]
    weights = np.array(samples) / sum(samples)
    truth = sum(weights * [0.5 * np.abs(should - are).sum() for should, are in laws])
    held_in = 0
    for _ in range(3000):
        drawn = [random.multinomial(count, are) / count for count, (_, are) in zip(samples, laws, strict=True)]
        each = [0.5 * np.abs(shares - should).sum() for shares, (should, _) in zip(drawn, laws, strict=True)]
        held_in += distance_bound(float(sum(weights * each)), sum(samples)) >= truth
    assert held_in >= 0.99 * 3000


def test_the_bound_is_at_most_1_and_shrinks_as_one_over_the_root() -> None:
    assert distance_bound(0.99, 10) == 1
    assert distance_bound(0.0, 20_000) == pytest.approx(0.0107, abs=1e-4)
    assert distance_bound(0.0, 80_000) == pytest.approx(distance_bound(0.0, 20_000) / 2)


def power(samples: int, distance_: float, runs: int = 40) -> float:
    """Return how often a bias spread over eight cells is suspicious among 40 p-values, three times out of three."""
    random, should = np.random.default_rng(3), np.full(8, 1 / 8)
    are = should + distance_ / 4 * np.array([1, -1] * 4)
    caught_in = 0
    for seed in range(runs):
        ranges = (goodness([Cells(random.multinomial(samples, are), should)], 16_000, seed) for _ in range(3))
        caught_in += all(found is not None and found.chi_square_p <= 0.0099 / 40 for found in ranges)
    return caught_in / runs


def test_40_000_answers_at_one_place_catch_a_bias_of_2_percent() -> None:
    assert power(40_000, 0.02) >= 0.97
    # The claim is not for nothing: a quarter of the answers does not do.
    assert power(10_000, 0.02) < 0.5


@pytest.mark.parametrize(("freedom", "width"), [(1, 12.7062), (3, 3.18245), (11, 2.20099), (10**6, 1.95997)])
def test_the_middle_95_of_100_of_student_s_distribution_are_those_of_the_tables(freedom: int, width: float) -> None:
    assert student_width(freedom) == pytest.approx(width, rel=1e-5)
