"""The row after a text, read anew: in passes as asked for, with the answers of earlier turns as rounds left them."""

import numpy as np
import pytest
from rounding import passes_of

from app.verify.tokens.rescore import Rescorer, spoken_places
from models.toy import ToyModel


@pytest.mark.parametrize("width", [1, 2, 3, 5, 40])
def test_the_same_row_comes_from_every_width_and_place(width: int) -> None:
    target, asked, said = ToyModel(), [*range(20)] * 4, [5, 6, 7, 8, 9, 10, 11]
    target.decode([0], rows=1)
    rescorer = Rescorer(target, asked, said, [1, 2, 3])
    wanted = rescorer.row(1, 0)
    text = [*asked, *said]
    target.rewind(0)
    target.decode(text[:60], rows=0)
    assert np.array_equal(target.decode(text[60:], rows=1)[0], wanted)
    for place in range(width):
        assert np.array_equal(rescorer.row(width, place), wanted)


def test_passes_are_as_wide_as_asked_for_and_the_odd_one_comes_first() -> None:
    target = ToyModel()
    passes = passes_of(target)
    rescorer = Rescorer(target, [1] * 70, [2] * 7, [3] * 9)
    rescorer.row(3, 1)
    # 69 tokens of the prompt; then its last token, and the answer's seven.
    assert passes == [(64, 0), (5, 0), (3, 3), (3, 3), (3, 3)]
    passes.clear()
    rescorer.row(4, 3)
    assert passes == [(64, 0), (5, 0), (4, 4), (4, 4)]
    passes.clear()
    rescorer.row(3, 0)
    assert passes == [(64, 0), (5, 0), (1, 1), (3, 3), (3, 3), (3, 3)]


def test_what_could_come_next_never_goes_past_the_context() -> None:
    target = ToyModel(context_size=10)
    passes = passes_of(target)
    assert len(Rescorer(target, [1] * 4, [2] * 5, [3] * 9).row(6, 0)) == target.vocab.size
    assert passes[-1] == (2, 2)


def test_the_row_of_a_sibling_is_the_same_row() -> None:
    target, asked, said = ToyModel(), [1, 2, 3, 4], [5, 6, 7]
    rescorer = Rescorer(target, asked, said, [8])
    wanted = rescorer.row(1, 0)
    passes = passes_of(target)
    for width in (3, 5, 40):
        passes.clear()
        found = rescorer.branch_row(width)
        assert found is not None
        assert np.array_equal(found, wanted)
        assert passes[-1] == (min(width, target.max_rows),) * 2
        assert target.length == len(asked) + len(said) - 1 + passes[-1][0] - 2


@pytest.mark.parametrize(
    ("target", "said"),
    [(ToyModel(rewind_limit=4), [5, 6]), (ToyModel(context_size=6), [5, 6]), (ToyModel(), [])],
    ids=("takes no branches", "context is full", "nothing was said"),
)
def test_where_no_sibling_can_be_there_is_no_row(target: ToyModel, said: list[int]) -> None:
    assert Rescorer(target, [1, 2, 3, 4], said, [8]).branch_row(4) is None


def test_earlier_answers_are_read_in_the_same_passes_and_what_is_between_at_once() -> None:
    target = ToyModel()
    passes = passes_of(target)
    rescorer = Rescorer(target, [1] * 70, [2], [3] * 9, [(4, 9), (66, 68)])
    rescorer.row(2, 1)
    assert passes == [(4, 0), (1, 1), (2, 2), (2, 2), (57, 0), (2, 2), (1, 0), (2, 2)]
    passes.clear()
    rescorer.row(1, 0)
    assert passes[:2] == [(4, 0), (1, 1)]
    assert passes.count((1, 1)) == 5 + 2 + 2


def test_an_earlier_answer_stands_from_its_prompts_last_token_to_its_own_last_but_one() -> None:
    asked = [1, 2, 3, 4, 5, 6, 7, 8]
    assert spoken_places(asked, [([1, 2], [3, 4, 5])]) == [(1, 4)]
    assert spoken_places(asked, [([1, 2], [3, 9, 5])]) == [(1, 3)], "the template changed the rest"
    assert spoken_places(asked, [([1, 2], [3]), ([1, 2, 3, 4], [5, 6, 7, 8, 9])]) == [(1, 2), (3, 7)]
    assert spoken_places(asked, [([1, 9], [3])]) == [(1, 1)]
