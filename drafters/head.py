"""Drafting with a head on the target's own hidden rows: a layer of its file (MTP), or a small file beside it (EAGLE-3).

It drafts as a draft model does, token by token. Two things differ. Accepted tokens are read again, together with the
next pending one, since the target's true rows are known then: k passes of the head a round. And it reads the context
in the target's order, as far back as the target's rows are kept.
"""

from collections.abc import Sequence
from typing import Self

from drafters.base import Draft, GoesOn, Hindsight
from drafters.draft_model import DraftModel
from models.base import LanguageModel
from models.heads.head_model import HeadModel
from models.llama.model import LlamaModel
from models.sampling.sampler import Sampler


class HeadDrafter(DraftModel):
    """Drafts with a draft head; owns it, and closes it."""

    def __init__(self, head: HeadModel) -> None:
        """Take a head that is joined to its target; raises PairError where their vocabularies differ."""
        super().__init__(head, head.target.vocab)
        self.name = head.name
        self.longest = head.longest
        self._rows = head
        # The target's row before a token says more than the token that every text begins with.
        self._head = 0
        self._text_order = tuple

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        """Rewind to what this prompt has in common with the last; the rest is read at the first draft."""
        super().begin(prompt, sampler)
        self._leave_out(prompt)

    def unread(self, context: Sequence[int]) -> int:
        """Return the number of tokens to read before it can draft; what has no row any more is left out for good."""
        self._leave_out(context)
        return super().unread(context)

    def focus(self, context: Sequence[int], window: int) -> None:
        """Forget what was read, and read no more of the context than its last `window` tokens."""
        self._restart(max(len(context) - window, self._first(context)))

    def catch_up(self, context: Sequence[int], said: int) -> Hindsight:
        """Read all that is unread; a head that shares its target's cache reads nothing, and predicts only its end."""
        return () if self._rows.head.options.shares_cache else super().catch_up(context, said)

    def extend(self, context: Sequence[int], given: Sequence[int], limit: int, goes_on: GoesOn) -> Draft:  # noqa: ARG002
        """Return its own draft: for tokens of a copy, which the target has not read, there are no rows."""
        self._leave_out(context)
        return super().extend(context, (), min(limit, self.longest), goes_on)

    def accept(self, emitted: Sequence[int], accepted: int) -> None:  # noqa: ARG002
        """Forget all draft tokens: those that were accepted are read again with the target's rows."""
        self.model.rewind(len(self._cached))

    def beside(self, model: LanguageModel) -> Self:
        """Return a new drafter with this head for a further text of the target, which is `model`."""
        assert isinstance(model, LlamaModel), "only such targets have heads"
        return type(self)(self._rows.beside(model))

    def _start(self) -> int:
        return self.skipped

    def _leave_out(self, context: Sequence[int]) -> None:
        """Skip the tokens to read whose rows are not kept any more."""
        if self.skipped + len(self._cached) < self._first(context):
            self._restart(self._first(context))
        self._rows.first_place = self.skipped

    def _first(self, context: Sequence[int]) -> int:
        """Return the first place to read: of a target that was not listened to, the last token without its row."""
        return min(self._rows.first_readable, len(context) - 1)

    def _restart(self, place: int) -> None:
        """Empty the cache, and read the text from a place on."""
        self._cached.clear()
        self.model.rewind(0)
        self.skipped = self._rows.first_place = place
