"""What a wide pass costs after it: seen where it is there, not seen where it is not, and paid once."""

import random
from collections.abc import Sequence

import pytest
from adapting import EVEN, free, new, played

from app.engine.constants import RUN_TOKENS
from app.engine.control.draft_model_cost import ModelCost
from app.engine.control.expected_gain import best_length, can_pay
from app.engine.control.loss_budget import run_trust
from app.engine.costs.graph_switch_cost import Aftermath
from app.engine.costs.pass_cost import VerifyCurve


def seen(times: int, *ones: float, wide: float = 3.0) -> Aftermath:
    """Return what is known after so many wide passes, each with these of one token after it."""
    aftermath = Aftermath()
    for _ in range(times):
        aftermath.observe(4, wide)
        for seconds in ones:
            aftermath.observe(1, seconds)
    return aftermath


def known(tokens: float = 1.0, table: dict[int, float] = EVEN) -> VerifyCurve:
    """Return a curve where each wide pass costs so many passes of one token after it."""
    curve = VerifyCurve(table)
    curve._aftermath = seen(3, 1 + tokens, 1.0, 1.0)
    return curve


def test_it_is_what_two_passes_take_longer_than_the_third() -> None:
    assert seen(3, 1.6, 1.3, 1.0).tokens == pytest.approx(0.9)
    assert seen(3, 3.2, 2.6, 2.0).tokens == pytest.approx(0.9), "in tokens, not in seconds"
    assert seen(9, 1.1, 1.05, 1.0).tokens == 0, "too little to be told from noise"
    assert seen(2, 1.6, 1.3, 1.0).tokens == 0, "twice is chance"


@pytest.mark.parametrize("ones", [(), (1.6,), (1.6, 1.3)])
def test_nothing_is_learnt_without_a_pass_that_is_as_usual(ones: Sequence[float]) -> None:
    aftermath = seen(9, *ones)
    assert aftermath.tokens == 0
    aftermath.begin()
    for _ in range(9):
        aftermath.observe(1, 1.0)
    assert aftermath.tokens == 0, "they come after something else"


def test_the_middle_of_the_last_nine_counts() -> None:
    aftermath = seen(9, 1.6, 1.3, 1.0)
    for _ in range(4):
        aftermath.observe(4, 1.0)
        for seconds in (9.0, 9.0, 1.0):
            aftermath.observe(1, seconds)
    assert aftermath.tokens == pytest.approx(0.9), "four slow moments"
    for _ in range(5):
        aftermath.observe(4, 1.0)
        for _ in range(3):
            aftermath.observe(1, 1.0)
    assert aftermath.tokens == 0, "the machine has changed"


def test_noise_is_none() -> None:
    dice = random.Random(4)
    aftermath = Aftermath()
    for _ in range(500):
        aftermath.observe(4, 1.3)
        for _ in range(3):
            aftermath.observe(1, dice.gauss(1.0, 0.05) * (1.3 if dice.random() < 0.05 else 1.0))
            assert aftermath.tokens == 0


def test_the_passes_after_a_wide_one_are_expected_to_take_longer() -> None:
    aftermath = seen(3, 1.6, 1.3, 1.0)
    factors = []
    for _ in range(5):
        factors.append(aftermath.factor)
        aftermath.observe(1, 1.0)
    assert factors == [1.0] * 5, "none came before"
    aftermath.observe(2, 3.0)
    factors = []
    for seconds in (1.6, 1.3, 1.0, 1.0):
        factors.append(aftermath.factor)
        aftermath.observe(1, seconds)
    assert factors == pytest.approx([1.6, 1.3, 1.0, 1.0])


def test_plain_decoding_is_not_taken_for_dearer_where_every_pass_of_one_token_follows_a_wide_one() -> None:
    curve = known()
    for _ in range(60):
        curve.observe(2, curve.seconds(2))
        curve.observe(1, 2.0)
    assert curve.seconds(1) == pytest.approx(1.0, rel=0.01)
    unaware = VerifyCurve(EVEN)
    for _ in range(60):
        unaware.observe(2, unaware.seconds(2))
        unaware.observe(1, 2.0)
    assert unaware.seconds(1) > 1.5


def test_it_is_paid_once_for_all_wide_passes_in_a_row() -> None:
    curve = known()
    measured_cost = curve.extra(5) - (curve.seconds(5) - curve.seconds(1))
    assert measured_cost == curve.aftermath == pytest.approx(1.0, rel=0.01)
    curve.observe(5, curve.seconds(5))
    assert curve.aftermath == 0
    curve.observe(1, 2.0)
    assert curve.aftermath == pytest.approx(1.0, rel=0.01)
    curve.observe(5, curve.seconds(5))
    curve.begin()
    assert curve.aftermath == pytest.approx(1.0, rel=0.01), "a prompt was read"


def test_what_is_expected_to_be_gained_has_to_pay_for_it() -> None:
    sure, plain = [0.7] * 2, VerifyCurve(EVEN)
    assert best_length(sure, plain, 1.0)[0] == 2
    assert best_length(sure, known(), 1.0) == (0, 0.0)
    length, gain = best_length([0.95] * 8, known(), 1.0)
    assert length == 8
    assert gain == pytest.approx(best_length([0.95] * 8, plain, 1.0)[1] - 1, rel=0.02)
    assert not can_pay(1, known(), 1.0, lambda _: 0.0)
    assert can_pay(1, plain, 1.0, lambda _: 0.0)
    model = ModelCost("model", VerifyCurve({1: 0.1}))
    assert model.probing(1, 2, 0, known()) == pytest.approx(model.probing(1, 2, 0, plain) + 1, rel=0.01)


def test_it_is_part_of_what_an_answer_may_lose() -> None:
    for tokens, drafts in ((0.0, True), (1.5, False)):
        adaptive = new()
        adaptive.state.curve = known(tokens)
        played(adaptive)
        assert best_length([0.99] * 2, adaptive.state.curve, adaptive.state.rate)[0] == 2, "it is expected to gain"
        assert (len(played(adaptive, free(2, 0.99), 2).draft.tokens) > 0) is drafts


def test_a_draft_that_was_checked_has_cost_it() -> None:
    saved = []
    for tokens in (0.0, 1.0):
        adaptive = new()
        adaptive.state.curve = known(tokens)
        played(adaptive)
        for _ in range(2):
            adaptive.state.polling.run = 20
            assert played(adaptive, free(4, 0.99), 4).draft.tokens
        saved.append(adaptive.state.losses.saved)
    assert saved[0] - saved[1] == pytest.approx(1.0, rel=0.01), "once"


def test_what_came_before_an_answer_is_not_taken_for_what_comes_before_its_first_pass() -> None:
    adaptive = new()
    adaptive.state.polling.run = 20
    played(adaptive)
    assert played(adaptive, free(4, 0.99), 4).draft.tokens
    assert not adaptive.state.curve._aftermath.is_over
    adaptive.begin()
    assert adaptive.state.curve._aftermath.is_over


def test_a_copy_that_goes_on_may_cost_it_besides() -> None:
    assert max(run_trust(run, known(1.5)) for run in range(100)) == pytest.approx(RUN_TOKENS + 1.5, rel=0.01)
    assert run_trust(4, known(1.5)) == 0
