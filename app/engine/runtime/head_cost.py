"""Cost of a draft model or head as the controller takes it, by the way in which it drafts."""

from dataclasses import dataclass

from app.engine.control.draft_model_cost import ModelCost
from app.engine.costs.pass_cost import VerifyCurve
from drafters.base import ModelDrafter
from drafters.head import HeadDrafter


@dataclass(frozen=True, slots=True)
class BlockCost(ModelCost):
    """Cost of a head that drafts blocks, with a curve of `block_table`: a step is one more token in the same pass."""

    def reading(self, tokens: int) -> float:
        """Return the seconds of a block of one token after `tokens` unread ones, the pending token among them."""
        return self.curve.seconds(max(1, tokens) + 1)


def cost_of(drafter: ModelDrafter, curve: VerifyCurve, *, is_tuned: bool = True) -> ModelCost:
    """Return the cost of a drafter with the curve of its passes."""
    kind = BlockCost if drafter.drafts_blocks else ModelCost
    return kind(drafter.name, curve, is_tuned, reads_copies=not isinstance(drafter, HeadDrafter))
