"""The tool that counts shapes of trees through on answers: its rounds are those that verification would take."""

import pytest
from tree_shapes import Shape, curve_of, further_choices, judged, rounds_of, speed_up

RANKS = (0, 0, 1, 0, 2, 0, 0)


@pytest.mark.parametrize(
    ("beside", "further", "rounds", "again"),
    [
        # 0 0 1 | 0 2 | 0 0: each round ends with the target's own token.
        ((0, 0, 0), (0, 0, 0), 3, 0),
        # 0 0 [1] 0 | 2 | 0 0: the second choice is right, and the next token is the bonus.
        ((1, 1, 1), (0, 0, 0), 3, 1),
        # 0 0 [1] 0 | [2] 0 | 0: both are right.
        ((2, 2, 2), (0, 0, 0), 3, 2),
        # 0 0 [1 0] 2 | 0 0: the second choice goes on.
        ((1, 1, 1), (2, 2, 2), 2, 2),
        # A second choice at the first place alone is never needed.
        ((1, 0, 0), (0, 0, 0), 3, 0),
    ],
)
def test_rounds_are_those_of_verification(
    beside: tuple[int, ...], further: tuple[int, ...], rounds: int, again: int
) -> None:
    assert rounds_of(RANKS, Shape(beside, further)) == (rounds, again)


def test_a_shape_costs_its_pass_its_steps_and_what_is_read_again() -> None:
    shape = Shape((1, 1, 1), (0, 0, 0))
    assert shape.size == 6
    assert speed_up([RANKS], shape, curve_of("1:1,7:4"), 0.1) == pytest.approx(7 / (3 * (4 + 0.3) + 0.5))


def test_a_shape_is_judged_on_the_answers_that_did_not_choose_it() -> None:
    right, wrong = (0,) * 12, (9,) * 12
    short, long = Shape((0,), (0,)), Shape((0,) * 3, (0,) * 3)
    seconds = curve_of("1:1,4:2")
    ways = (speed_up([wrong], long, seconds, 0), speed_up([right], short, seconds, 0))
    assert judged([right, wrong], [short, long], seconds, 0) == pytest.approx(sum(ways) / 2)


def test_a_choice_counts_where_those_before_it_are_wrong() -> None:
    assert further_choices([RANKS], 3) == [pytest.approx(5 / 7), 0.5, 1.0]
