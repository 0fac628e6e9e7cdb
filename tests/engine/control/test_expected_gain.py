"""What a draft is worth: the best length against every length tried, and the chance a token from which on it pays."""

import math
from collections.abc import Callable, Sequence

import pytest
from checking import FIXED, ONCE, caught
from curves import PUBLISHED
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.constants import MARGIN
from app.engine.control.expected_gain import Seconds, affordable, best_length, break_even, no_time
from app.engine.costs.pass_cost import VerifyCurve

Rule = Callable[[Sequence[float], VerifyCurve, float, Seconds], tuple[int, float]]
FOUR_ARE_CHEAPER_THAN_THREE = VerifyCurve({1: 1, 2: 1.41, 3: 1.8, 4: 1.5, 5: 1.9, 8: 2.7, 16: 3.3})
FLAT = VerifyCurve({1: 1, 32: 1})
STEEP = VerifyCurve({1: 1, 2: 2, 32: 32})
EVEN = VerifyCurve({1: 1, 32: 1 + 31 * 0.2})

curves = st.one_of(
    st.sampled_from([VerifyCurve(curve) for curve in PUBLISHED.values()]),
    st.lists(st.floats(0.5, 20), min_size=1, max_size=16).map(
        lambda ratios: VerifyCurve({1: 1, **dict(enumerate(ratios, start=2))})
    ),
)
chances_of_drafts = st.lists(st.floats(0, 1), max_size=16)
measured_costs = st.floats(0.3, 8)
steps = st.sampled_from([0.0, 0.1, 0.3, 0.8])


def each(step: float) -> Seconds:
    """Return the time of a drafter that takes `step` a token."""
    return lambda length: step * length


def gain(
    length: int, chances: Sequence[float], curve: VerifyCurve, measured_cost: float, draft_seconds: Seconds
) -> float:
    """Return the tokens that a draft gains on average, less those that its time is worth: by the definition."""
    expected = sum(math.prod(chances[:last]) for last in range(1, length + 1))
    return expected - measured_cost * (curve.seconds(length + 1) - curve.seconds(1) + draft_seconds(length))


def assert_best(rule: Rule, chances: Sequence[float], curve: VerifyCurve, measured_cost: float, step: float) -> None:
    gains = [gain(length, chances, curve, measured_cost, each(step)) for length in range(1, len(chances) + 1)]
    length, best = rule(chances, curve, measured_cost, each(step))
    highest = max(gains, default=0.0)
    if highest < MARGIN - 1e-9:
        assert (length, best) == (0, 0.0)
    elif highest > MARGIN + 1e-9:
        assert best == pytest.approx(highest)
        assert gains[length - 1] == pytest.approx(highest)


@FIXED
@given(chances_of_drafts, curves, measured_costs, steps)
def test_the_best_length_is_the_best_of_all_lengths(
    chances: list[float], curve: VerifyCurve, measured_cost: float, step: float
) -> None:
    assert_best(best_length, chances, curve, measured_cost, step)


def first_peak(
    chances: Sequence[float], curve: VerifyCurve, measured_cost: float, draft_seconds: Seconds
) -> tuple[int, float]:
    """Lengthen a draft only as long as each token more is worth more: what a jagged curve punishes."""
    best, best_gain = 0, 0.0
    for length in range(1, len(chances) + 1):
        worth = gain(length, chances, curve, measured_cost, draft_seconds)
        if worth <= max(best_gain, MARGIN):
            break
        best, best_gain = length, worth
    return best, best_gain


def at_the_rate_of_plain(
    chances: Sequence[float], curve: VerifyCurve, _: float, draft_seconds: Seconds
) -> tuple[int, float]:
    """Value seconds as plain decoding would, whatever is achieved."""
    return best_length(chances, curve, 1 / curve.seconds(1), draft_seconds)


def without_the_drafter(
    chances: Sequence[float], curve: VerifyCurve, measured_cost: float, _: Seconds
) -> tuple[int, float]:
    """Forget that the drafter takes time too."""
    return best_length(chances, curve, measured_cost, no_time)


def as_if_each_token_stood_alone(
    chances: Sequence[float], curve: VerifyCurve, measured_cost: float, draft_seconds: Seconds
) -> tuple[int, float]:
    """Add up the chances, as if a token could be accepted after another was not."""
    gains = [
        sum(chances[:n]) - measured_cost * (curve.seconds(n + 1) - 1 + draft_seconds(n))
        for n in range(len(chances) + 1)
    ]
    best = max(range(len(gains)), key=gains.__getitem__)
    return (best, gains[best]) if gains[best] > MARGIN else (0, 0.0)


@pytest.mark.parametrize(
    "broken", [first_peak, at_the_rate_of_plain, without_the_drafter, as_if_each_token_stood_alone]
)
def test_a_rule_that_leaves_something_out_is_noticed(broken: Rule) -> None:
    @settings(ONCE, max_examples=2000)
    @given(chances_of_drafts, curves, measured_costs, steps)
    def check(chances: list[float], curve: VerifyCurve, measured_cost: float, step: float) -> None:
        assert_best(broken, chances, curve, measured_cost, step)

    with caught():
        check()


def test_the_example_by_hand() -> None:
    # Two tokens at .8: 1.44 more, for .4 passes of one token; a third adds .512 for .2.
    assert best_length([0.8] * 2, EVEN, 1.0) == (2, pytest.approx(0.8 + 0.64 - 0.4))
    assert best_length([0.8] * 3, EVEN, 1.0) == (3, pytest.approx(0.8 + 0.64 + 0.512 - 0.6))
    # At .1 a token it stops where the next adds less than it costs.
    assert best_length([0.9, 0.9, 0.1], EVEN, 1.0) == (2, pytest.approx(0.9 + 0.81 - 0.4))


def test_a_dear_width_is_jumped_over() -> None:
    # Three tokens checked cost less than two: two guesses never are the best, whatever their chance.
    lengths = {best_length([chance / 100] * 3, FOUR_ARE_CHEAPER_THAN_THREE, 1.0)[0] for chance in range(101)}
    assert lengths == {0, 3}


def test_plain_decoding_wins_where_each_token_costs_a_whole_pass_or_nobody_is_right() -> None:
    assert best_length([1.0] * 16, STEEP, 1.0) == (0, 0.0)
    assert best_length([0.0] * 16, EVEN, 1.0) == (0, 0.0)
    assert best_length([], FLAT, 1.0) == (0, 0.0)


def test_what_costs_nothing_is_checked_to_its_end_if_it_may_be_right_at_all() -> None:
    assert best_length([0.5] * 16, FLAT, 5.0)[0] == 16
    assert best_length([MARGIN / 2], FLAT, 5.0) == (0, 0.0), "a gain this small is noise"


@FIXED
@given(chances_of_drafts, curves, measured_costs, measured_costs, steps)
def test_the_dearer_a_second_the_less_a_draft_is_worth(
    chances: list[float], curve: VerifyCurve, one: float, other: float, step: float
) -> None:
    cheap, dear = sorted((one, other))
    cheap_gain = best_length(chances, curve, cheap, each(step))[1]
    dear_gain = best_length(chances, curve, dear, each(step))[1]
    if all(curve.ratio(width) >= 1 for width in range(2, len(chances) + 2)):
        assert dear_gain <= cheap_gain + 1e-9


def test_a_high_rate_makes_short_sure_drafts_of_long_ones() -> None:
    falling = [0.9**place for place in range(1, 12)]
    lengths = [best_length(falling, EVEN, measured_cost)[0] for measured_cost in (0.5, 1, 2, 4)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[1] > lengths[2] > lengths[3]


def assert_breaks_even(
    longest: int, curve: VerifyCurve, measured_cost: float, step: float, rule: Callable[..., float | None] = break_even
) -> None:
    needed = rule(longest, curve, measured_cost, each(step))
    if needed is None:
        assert best_length([1.0] * longest, curve, measured_cost, each(step))[0] == 0
        return
    assert 0 <= needed <= 1
    above, below = min(1.0, needed + 1e-3), needed - 1e-3
    assert best_length([above] * longest, curve, measured_cost, each(step))[0] > 0
    if below >= 0:
        assert best_length([below] * longest, curve, measured_cost, each(step))[0] == 0


@FIXED
@given(st.integers(1, 31), curves, measured_costs, steps)
def test_drafting_pays_above_the_break_even_point_and_not_below(
    longest: int, curve: VerifyCurve, measured_cost: float, step: float
) -> None:
    assert_breaks_even(longest, curve, measured_cost, step)


def of_one_token(longest: int, curve: VerifyCurve, measured_cost: float, draft_seconds: Seconds) -> float | None:  # noqa: ARG001
    """Look at a draft of one token alone."""
    return break_even(1, curve, measured_cost, draft_seconds)


def a_little_off(longest: int, curve: VerifyCurve, measured_cost: float, draft_seconds: Seconds) -> float | None:
    needed = break_even(longest, curve, measured_cost, draft_seconds)
    return None if needed is None else min(1.0, needed + 0.01)


@pytest.mark.parametrize("broken", [of_one_token, a_little_off])
def test_a_break_even_point_that_is_wrong_is_noticed(broken: Callable[..., float | None]) -> None:
    @ONCE
    @given(st.integers(1, 31), curves, measured_costs, steps)
    def check(longest: int, curve: VerifyCurve, measured_cost: float, step: float) -> None:
        assert_breaks_even(longest, curve, measured_cost, step, broken)

    with caught():
        check()


def test_break_even_points_by_hand() -> None:
    # One token: its chance must cover a fifth of a pass, and the margin.
    assert break_even(1, EVEN, 1.0) == pytest.approx(0.2 + MARGIN, abs=1e-4)
    # Three for half a pass: c + c^2 + c^3 = .53.
    assert break_even(3, FOUR_ARE_CHEAPER_THAN_THREE, 1.0) == pytest.approx(0.3570, abs=1e-3)
    assert break_even(31, STEEP, 1.0) is None
    assert break_even(31, EVEN, 1.0, each(0.9)) is None


def test_what_is_not_proved_may_cost_no_more_than_the_stake() -> None:
    cost = [0.5, 0.9, 1.4, 1.2, 3.0].__getitem__
    assert affordable(5, lambda n: cost(n - 1), (), budget=1.2, trust=1.0) == 4
    assert affordable(5, lambda n: cost(n - 1), (), budget=1.0, trust=1.0) == 2
    assert affordable(5, lambda n: cost(n - 1), (), budget=0.4, trust=1.0) == 0


def test_what_is_proved_may_cost_more_by_what_it_is_worth_and_by_the_trust_at_most() -> None:
    def longest(floors: Sequence[float], budget: float, trust: float) -> int:
        return affordable(3, lambda n: 0.9 * n, floors, budget, trust)

    assert longest((0.5, 0.5, 0.5), budget=1.3, trust=9.0) == 2, "1.8 is lost, and .75 of it expected back"
    assert longest((0.9, 0.9, 0.9), budget=0.3, trust=9.0) == 3, "2.7 is lost, and 2.44 of it expected back"
    assert longest((0.9, 0.9, 0.9), budget=0.3, trust=1.0) == 1
    assert longest((0.9, 0.9, 0.9), budget=1.0, trust=1.0) == 2
    assert longest((1.0,), budget=0.0, trust=1.0) == 1, "unproven draft tokens are worth nothing"
