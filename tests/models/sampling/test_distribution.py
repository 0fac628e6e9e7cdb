"""A distribution over a few tokens: what it says of tokens it lists, and of those it does not."""

from fractions import Fraction

import numpy as np
import pytest
from checking import FIXED
from enumeration import distribution
from hypothesis import given
from hypothesis import strategies as st

from models.sampling.distribution import Distribution, excess, normalised, one_hot

SAID = Distribution(np.array([2, 5, 9]), np.array([0.5, 0.3, 0.2]))


def test_a_token_has_its_probability() -> None:
    assert [SAID.of(token) for token in (2, 5, 9)] == [0.5, 0.3, 0.2]


@pytest.mark.parametrize("token", [0, 3, 8, 10, 10_000])
def test_a_token_that_is_not_listed_has_none(token: int) -> None:
    assert SAID.of(token) == 0
    assert SAID.at(np.array([token])).tolist() == [0]


def test_probabilities_come_in_the_order_that_was_asked_for() -> None:
    assert SAID.at(np.array([9, 0, 2, 11, 5, 2])).tolist() == [0.2, 0, 0.5, 0, 0.3, 0.5]
    assert SAID.at(np.array([], dtype=np.int64)).tolist() == []


def test_a_token_that_is_certain() -> None:
    said = one_hot(7)
    assert said.of(7) == 1
    assert said.of(6) == said.of(8) == 0
    assert said.without(7) is None


def test_a_token_that_is_certain_leaves_fractions_fractions() -> None:
    ids, weights = excess(distribution(1, 2, 3), one_hot(1))
    assert ids.tolist() == [0, 2]
    assert weights.tolist() == [Fraction(1, 6), Fraction(1, 2)]
    assert all(isinstance(weight, Fraction) for weight in weights)


def test_what_is_left_without_a_token_sums_to_one_again() -> None:
    left = SAID.without(5)
    assert left is not None
    assert left.ids.tolist() == [2, 9]
    assert left.probs == pytest.approx([5 / 7, 2 / 7])
    same = SAID.without(4)
    assert same is not None
    assert same.ids.tolist() == [2, 5, 9]
    assert SAID.probs.tolist() == [0.5, 0.3, 0.2], "the distribution itself stays as it was"


def test_nothing_is_left_when_all_others_are_impossible() -> None:
    assert distribution(0, 1, 0).without(1) is None
    left = distribution(0, 1, 0).without(0)
    assert left is not None
    assert left.of(1) == 1


def test_weights_become_probabilities() -> None:
    made = normalised(np.array([1, 4]), np.array([3.0, 1.0]))
    assert made is not None
    assert made.probs.tolist() == [0.75, 0.25]
    exact = normalised(np.array([1, 4]), np.array([Fraction(1, 3), Fraction(1, 6)], dtype=object))
    assert exact is not None
    assert exact.probs.tolist() == [Fraction(2, 3), Fraction(1, 3)]


@pytest.mark.parametrize("weights", [[], [0.0], [0.0, 0.0]])
def test_weights_of_nothing_are_no_distribution(weights: list[float]) -> None:
    assert normalised(np.arange(len(weights)), np.array(weights)) is None


def test_an_excess_is_what_one_has_over_the_other() -> None:
    draft = Distribution(np.array([2, 9, 11]), np.array([0.1, 0.6, 0.3]))
    ids, weights = excess(SAID, draft)
    assert ids.tolist() == [2, 5]
    assert weights == pytest.approx([0.4, 0.3])
    ids, weights = excess(SAID, draft, 0.1)
    assert ids.tolist() == [5]
    assert weights == pytest.approx([0.03])
    assert excess(SAID, SAID)[0].tolist() == []


weights = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)


@given(weights, weights, st.booleans(), st.booleans())
@FIXED
def test_excess_and_overlap_are_all_there_is(
    target: list[int], draft: list[int], target_listed: bool, draft_listed: bool
) -> None:
    one, other = distribution(*target, listed=target_listed), distribution(*draft, listed=draft_listed)
    over = dict(zip(*(array.tolist() for array in excess(one, other)), strict=True))
    for token in range(4):
        assert over.get(token, 0) + min(one.of(token), other.of(token)) == one.of(token)
    assert all(weight > 0 for weight in over.values())
