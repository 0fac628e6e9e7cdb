"""Cost of heads that draft blocks: one pass for all tokens of a draft, as long as more of them cost little."""

import pytest

from app.engine.control.draft_model_cost import ModelCost
from app.engine.costs.block_cost import block_table
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.runtime.head_cost import BlockCost, cost_of
from drafters.draft_model import DraftModel
from models.toy import ToyModel

READING = {1: 4.0, 2: 4.1, 4: 4.3, 8: 4.7, 16: 5.5, 64: 10.0}
BLOCKS = {1: 4.0, 2: 4.2, 4: 4.6, 8: 5.4, 15: 6.8}


def block_cost(blocks: dict[int, float] | None = None) -> BlockCost:
    return BlockCost("dflash", VerifyCurve(block_table(READING, blocks or BLOCKS)), reads_copies=False)


@pytest.mark.parametrize("length", [1, 2, 4, 8, 15])
def test_a_block_costs_one_pass_and_a_little_for_each_further_token(length: int) -> None:
    assert block_cost().drafting(1, length) == pytest.approx(BLOCKS[length], rel=0.02)


def test_tokens_that_were_accepted_are_read_with_the_block() -> None:
    cost = block_cost()
    assert [cost.reading(unread) for unread in (1, 2, 4, 16)] == [4.0, 4.1, 4.3, 5.5]
    assert cost.drafting(4, 8) == pytest.approx(4.3 + 7 * 0.2)
    assert cost.read_along(1, [0.9, 0.9]) == 0


def test_a_further_token_that_costs_nothing_is_no_division_by_zero() -> None:
    cost = block_cost({1: 4.0, 15: 3.9})
    assert 0 < cost.curve.seconds(1) < 0.01
    assert cost.drafting(1, 15) == pytest.approx(4.0, rel=0.02)


def test_a_head_of_blocks_of_one_has_a_table() -> None:
    assert block_table(READING, {1: 4.0})[1] > 0


def test_whole_blocks_pay_where_single_steps_do_not() -> None:
    target = VerifyCurve({1: 10.0, 2: 10.5, 4: 11.0, 16: 14.0})
    rate = 1 / target.seconds(1)
    alone = ModelCost("eagle3", VerifyCurve(READING))
    assert block_cost().drafting(1, 8) < alone.drafting(1, 8) / 4
    assert block_cost().can_pay(8, target, rate)


def test_other_drafters_cost_a_pass_a_token() -> None:
    drafter = DraftModel(ToyModel(), ToyModel().vocab)
    cost = cost_of(drafter, VerifyCurve({1: 2.0, 16: 3.0}))
    assert type(cost) is ModelCost
    assert cost.reads_copies
    assert cost.drafting(1, 5) == pytest.approx(10.0)
