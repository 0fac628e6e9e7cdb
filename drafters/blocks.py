"""Drafting with a head that drafts a block in one pass: DFlash, DFlash2, DSpark.

Nothing is read again: what the target has read goes into the head's cache as it is, and a block leaves nothing there.
How many tokens a block has is decided before it is made, since more of them take more time. Where its acceptance is
low, a draft is cut before it is verified, as any other.
"""

from collections.abc import Sequence

from drafters.base import NO_DRAFT, Draft, GoesOn, Hindsight
from drafters.draft_model import Said
from drafters.head import HeadDrafter
from drafters.medusa import MedusaDrafter
from models.heads.block_model import BlockModel
from models.heads.head_model import HeadModel
from models.heads.medusa.model import MedusaModel


class BlockDrafter(HeadDrafter):
    """Drafts blocks with a draft head; owns it, and closes it."""

    def __init__(self, head: BlockModel) -> None:
        """Take a head that is joined to its target; raises PairError where their vocabularies differ."""
        super().__init__(head)
        self.drafts_blocks = True
        self._blocks = head

    def catch_up(self, context: Sequence[int], said: int) -> Hindsight:  # noqa: ARG002
        """Read all that is unread; what it would have drafted there takes a pass each, so nothing is judged."""
        self._read_up_to(context)
        return ()

    def extend(self, context: Sequence[int], given: Sequence[int], limit: int, goes_on: GoesOn) -> Draft:  # noqa: ARG002
        """Return a draft of up to `limit` tokens, made in one pass: whether another pays is not asked."""
        limit = min(limit, self.longest, self.model.context_size - len(context))
        if limit <= 0 or context[-1] >= self.model.vocab.size:
            return NO_DRAFT
        self._read_up_to(context)
        block, said = self._blocks.block(context[-1], limit), Said()
        for place in range(limit):
            before = said.tokens[-1] if said.tokens else context[-1]
            if not said.proposal(self._sampler, block.row(place, before)[: self._shared], context):
                break
            if self._is_end(said.tokens[-1]):
                break
        return said.draft(self.name) if said.tokens else NO_DRAFT

    def _read_up_to(self, context: Sequence[int]) -> None:
        """Read all tokens but the last, whose row the target has not computed yet."""
        self._leave_out(context)
        view = self._view(context)
        unseen, size = self._unseen(view)[:-1], self.model.batch_size
        for start in range(0, len(unseen), size):
            self.model.decode(unseen[start : start + size], 0)
            self._cached += unseen[start : start + size]


def head_drafter(head: HeadModel) -> HeadDrafter:
    """Return the drafter of a head, by its way to draft; raises PairError where vocabularies differ."""
    if isinstance(head, MedusaModel):
        return MedusaDrafter(head)
    return BlockDrafter(head) if isinstance(head, BlockModel) else HeadDrafter(head)
