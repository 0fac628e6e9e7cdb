"""What an answer may lose: most of a token, and less where answers are short, as a wrong guess is more of those."""

import pytest
from adapting import controller, played
from checking import caught

from app.engine.constants import BUDGET_TOKENS
from app.engine.control.loss_budget import LossBudget, kept_back
from app.engine.costs.pass_cost import VerifyCurve
from drafters.base import Draft

DEAR = VerifyCurve({1: 1.0, 2: 1.3, 4: 2.0, 8: 3.8})
"""Passes that cost nearly as much as their tokens, as with AVX2 alone; so many passes of one token."""
COPY = Draft((1, 2, 3, 4), confidence=(0.9,) * 4, source="suffix")


def after(*answers: int) -> LossBudget:
    """Return the stake of the answer that follows some of so many tokens."""
    budget = LossBudget()
    for said in answers:
        budget.begin(said)
    return budget


@pytest.mark.parametrize(
    ("answers", "tokens"), [((), 0.75), ((160,), 0.75), ((50,) * 9, 0.75), ((20,) * 9, 0.3), ((2,) * 9, 0.12)]
)
def test_the_shorter_the_last_answers_the_less_may_be_lost_and_never_nothing(
    answers: tuple[int, ...], tokens: float
) -> None:
    budget = after(*answers)
    assert budget.tokens == pytest.approx(tokens, rel=0.01)
    assert budget.left(2.0) == pytest.approx(2 * tokens, rel=0.01)


def test_the_last_answer_counts_half() -> None:
    assert after(*[10] * 9, 400, 400).tokens == BUDGET_TOKENS
    assert after(*[10] * 9, 400, 10, 10).tokens < 0.5
    # As 50 tokens and 20.
    assert after(400, 400, 20).tokens == pytest.approx(0.47, abs=0.01)


def test_what_fills_a_infill_is_short_and_says_nothing_of_answers_nor_they_of_it() -> None:
    budget = LossBudget()
    answer = budget.tokens, budget.rest(0)
    for _ in range(9):
        budget.begin(0, infill=True)
        infill = budget.tokens, budget.rest(0)
        assert infill == (0.12, 12), "answers of any length came between"
        budget.begin(0)
        assert (budget.tokens, budget.rest(0)) == answer
        budget.begin(400, infill=True)
    for _ in range(9):
        budget.begin(40, infill=True)
    assert budget.rest(0) == pytest.approx(40, rel=0.01)
    budget.begin(40)
    assert (budget.tokens, budget.rest(0)) == answer


def test_half_as_much_may_be_lost_besides_where_it_is_proved_not_to_be_expected() -> None:
    for answers in ((), (20,) * 9, (2,) * 9):
        budget = after(*answers)
        assert budget.trust(0.0) == pytest.approx(budget.tokens / 2)
        assert budget.trust(0.05) == pytest.approx(budget.tokens / 2 - 0.05)
        assert budget.trust(2.0) == 0.0


def test_nothing_is_lent_to_fill_a_infill() -> None:
    def check() -> None:
        budget = LossBudget()
        budget.begin(0, infill=True)
        assert not budget.can_lend(1.0, 100.0, 1.0)
        assert budget.tokens < 1

    assert LossBudget().can_lend(1.0, 100.0, 1.0)
    check()
    with pytest.MonkeyPatch.context() as broken, caught():
        broken.setattr(LossBudget, "_infill", property(lambda _: False, lambda *_: None), raising=False)
        check()


def test_an_answer_of_which_nothing_was_said_tells_nothing() -> None:
    budget = after(20, 20)
    before = budget.tokens
    budget.begin(0)
    assert budget.tokens == before


def drafts_after(answers: int, said: int) -> int:
    """Return how many guesses of a copy that goes on are checked, where answers had so many tokens."""
    adaptive = controller(DEAR, 31)
    for _ in range(answers):
        for _ in range(said):
            played(adaptive)
        adaptive.begin()
    adaptive.state.progress.rounds, adaptive.state.polling.run = 1, 4
    return len(adaptive.lengths.verifiable(COPY))


def test_where_passes_are_dear_and_answers_short_one_guess_is_all_that_may_be_wrong() -> None:
    def check() -> None:
        assert drafts_after(9, 20) == 1

    assert drafts_after(0, 20) == drafts_after(9, 200) == 2
    check()
    with pytest.MonkeyPatch.context() as broken, caught():
        broken.setattr("app.engine.control.loss_budget.LENGTH_SHARE", 1.0)
        check()


def test_where_passes_are_cheap_a_small_stake_is_enough_for_free_guesses() -> None:
    cheap = VerifyCurve({1: 1.0, 4: 1.1, 8: 1.5})
    assert kept_back(cheap, 0.2) == 0.0
    assert kept_back(cheap, 1.0) == 0.8
    assert kept_back(DEAR, 0.4) == kept_back(DEAR, 1.0) == 0.0
