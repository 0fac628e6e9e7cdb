"""The arithmetic of the accept rules, on numbers that can be worked out by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest
from checking import FIXED
from enumeration import coupled_overlap, distribution, overlap
from hypothesis import given
from hypothesis import strategies as st

from app.engine.decoding.rules import accept_chance, block, residual, typical_threshold
from models.sampling.distribution import Distribution, one_hot

TARGET, DRAFT = distribution("0.4", "0.5", "0.1"), distribution("0.6", "0.3", "0.1")
HALF = Fraction(1, 2)


def floats(*probs: float) -> Distribution:
    return Distribution(np.arange(len(probs)), np.array(probs))


def listed(said: Distribution) -> dict[int, float]:
    return dict(zip(said.ids.tolist(), said.probs.tolist(), strict=True))


@pytest.mark.parametrize(
    ("target", "draft", "chance"),
    [(0.15, 0.30, 0.5), (0.3, 0.3, 1), (0.4, 0.3, 1), (0.0, 0.3, 0), (1, 1, 1), (1.0, 1e-300, 1)],
)
def test_a_guess_is_kept_with_the_ratio_of_its_chances_but_never_more_than_one(
    target: float, draft: float, chance: float
) -> None:
    assert accept_chance(target, draft) == chance


def test_a_residual_is_what_the_target_has_over_the_draft() -> None:
    assert listed(residual(TARGET, DRAFT)) == {1: 1}
    assert listed(residual(floats(0.5, 0.3, 0.2), floats(0.2, 0.2, 0.6))) == pytest.approx({0: 0.75, 1: 0.25})


def test_a_residual_against_a_certain_guess_is_the_target_without_it() -> None:
    assert listed(residual(TARGET, one_hot(1))) == {0: Fraction(4, 5), 2: Fraction(1, 5)}


def test_a_residual_against_a_draft_of_other_tokens_is_the_target() -> None:
    assert listed(residual(TARGET, one_hot(3))) == listed(TARGET)


def test_where_nothing_is_left_the_target_itself_is_the_residual() -> None:
    assert residual(TARGET, TARGET) is TARGET
    assert residual(TARGET, DRAFT, 0) is TARGET


def test_a_scaled_residual_counts_less_of_the_target() -> None:
    # Half of the target against the draft: (.2, .25, .05) - (.1, .2, .7).
    assert listed(residual(TARGET, distribution("0.1", "0.2", "0.7"), HALF)) == {
        0: Fraction(2, 3),
        1: Fraction(1, 3),
    }


def test_an_overlap_is_the_sum_of_minima() -> None:
    assert overlap(TARGET, DRAFT) == Fraction("0.8")
    assert overlap(TARGET, TARGET) == 1
    assert overlap(TARGET, one_hot(1)) == HALF
    assert overlap(one_hot(3), TARGET) == 0


def test_the_coupled_overlap_of_equals_and_of_strangers() -> None:
    assert coupled_overlap(TARGET, TARGET) == pytest.approx(1)
    assert coupled_overlap(TARGET, one_hot(4)) == 0
    assert coupled_overlap(TARGET, one_hot(1)) == pytest.approx(0.5)
    assert coupled_overlap(floats(0.5, 0.5), floats(2 / 3, 1 / 3)) == pytest.approx(5 / 6)


weights = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)


@given(weights, weights)
@FIXED
def test_the_coupled_overlap_is_between_its_bounds(target: list[int], draft: list[int]) -> None:
    one, other = distribution(*target), distribution(*draft)
    common, coupled = float(overlap(one, other)), coupled_overlap(one, other)
    assert common / (2 - common) - 1e-12 <= coupled <= common + 1e-12
    assert coupled == pytest.approx(coupled_overlap(other, one))


# --- block ------------------------------------------------------------------------------------------------------------


def test_a_block_of_one_token_is_judged_as_a_single_guess() -> None:
    for token in range(3):
        judged = block([TARGET], [DRAFT], [token])
        chance = accept_chance(TARGET.of(token), DRAFT.of(token))
        assert judged.chances == (chance,)
        assert judged.scales == (1, chance)


def test_a_good_token_makes_up_for_a_bad_one_before_it() -> None:
    judged = block([TARGET, TARGET], [DRAFT, DRAFT], [0, 1])
    # .4 / .6 = 2/3; times .5 / .3 = 10/9, and no more than 1.
    assert judged.scales == (1, Fraction(2, 3), 1)
    assert judged.chances[-1] == 1
    # At the first place: s = 2/3 * .5 - .3 = 1/30, so s / (s + 1/3) = 1/11.
    assert judged.chances[0] == Fraction(1, 11)


def test_a_good_token_is_no_credit_for_a_bad_one_after_it() -> None:
    judged = block([TARGET, TARGET], [DRAFT, DRAFT], [1, 0])
    assert judged.scales == (1, 1, Fraction(2, 3))
    assert judged.chances == (1, Fraction(2, 3))


def test_a_draft_that_the_target_rules_out_has_no_chance_from_there_on() -> None:
    judged = block([distribution(0, 1), TARGET], [distribution(1, 1), DRAFT], [0, 1])
    assert judged.scales == (1, 0, 0)
    assert judged.chances == (0, 0)


def test_a_block_that_is_the_target_is_certain() -> None:
    judged = block([TARGET] * 3, [TARGET] * 3, [0, 1, 2])
    assert judged.scales == (1, 1, 1, 1)
    assert judged.chances == (1, 1, 1)


def test_one_more_distribution_of_the_target_changes_nothing() -> None:
    assert block([TARGET] * 3, [DRAFT] * 2, [0, 0]) == block([TARGET] * 2, [DRAFT] * 2, [0, 0])


@given(st.lists(st.tuples(weights, weights, st.integers(0, 3)), min_size=1, max_size=4))
@FIXED
def test_chances_and_scales_are_chances_and_floats_agree_with_fractions(
    places: list[tuple[list[int], list[int], int]],
) -> None:
    drawn = [(t, d, token) for t, d, token in places if d[token] > 0]
    targets = [distribution(*target) for target, _, _ in drawn]
    drafts = [distribution(*draft) for _, draft, _ in drawn]
    tokens = [token for _, _, token in drawn]
    judged = block(targets, drafts, tokens)
    assert len(judged.scales) == len(tokens) + 1
    assert len(judged.chances) == max(1, len(tokens))
    assert all(0 <= number <= 1 for number in (*judged.scales, *judged.chances))
    rounded = block(*([floats(*map(float, said.probs)) for said in side] for side in (targets, drafts)), tokens)
    assert [float(scale) for scale in rounded.scales] == pytest.approx([float(scale) for scale in judged.scales])


# --- typical ----------------------------------------------------------------------------------------------------------


def test_the_typical_threshold_falls_where_the_target_is_undecided() -> None:
    assert typical_threshold(one_hot(3)) == 0.09
    assert typical_threshold(floats(*[1 / 40] * 40)) == pytest.approx(0.3 / 40)
    assert typical_threshold(floats(0.5, 0.5)) == pytest.approx(min(0.09, 0.3 * math.exp(-math.log(2))))
    assert typical_threshold(floats(0.5, 0.5, 0.0)) == typical_threshold(floats(0.5, 0.5))
    assert typical_threshold(distribution(1, 1, 1, 1, 1, 1)) == pytest.approx(0.05)
