"""Drafting with Medusa heads: each of them predicts one place of the draft from the target's last hidden row.

No draft token depends on another, so a whole draft costs one small product, and there is nothing to read. The heads do
not know which tokens were drafted before theirs, which is why later places are accepted less often than a chain's.
Second choices become siblings, as those of a draft model.
"""

from collections.abc import Sequence

from drafters.base import NO_DRAFT, Draft, GoesOn, Hindsight
from drafters.draft_model import Said
from drafters.head import HeadDrafter
from models.heads.medusa.model import MedusaModel
from models.sampling.sampler import Sampler


class MedusaDrafter(HeadDrafter):
    """Drafts with Medusa heads; owns them, and closes them."""

    def __init__(self, heads: MedusaModel) -> None:
        """Take heads that are joined to their target."""
        super().__init__(heads)
        self.drafts_blocks = True
        self._heads = heads

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:  # noqa: ARG002
        """Take the sampler; nothing is kept of a text."""
        self._sampler = sampler

    def unread(self, context: Sequence[int]) -> int:  # noqa: ARG002
        """Return 1: the pending token, which is not read either."""
        return 1

    def focus(self, context: Sequence[int], window: int) -> None:
        """Do nothing: no context is read."""

    def catch_up(self, context: Sequence[int], said: int) -> Hindsight:  # noqa: ARG002
        """Return nothing: no context is read."""
        return ()

    def extend(self, context: Sequence[int], given: Sequence[int], limit: int, goes_on: GoesOn) -> Draft:  # noqa: ARG002
        """Return a draft of up to `limit` tokens; of none where the target's last row is not there."""
        limit = min(limit, self.longest, self.model.context_size - len(context))
        said = Said()
        for row in self._heads.rows_after(len(context), limit) if limit > 0 else ():
            if not said.proposal(self._sampler, row[: self._shared], context) or self._is_end(said.tokens[-1]):
                break
        return said.draft(self.name) if said.tokens else NO_DRAFT

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Do nothing: the target's next row says all."""
