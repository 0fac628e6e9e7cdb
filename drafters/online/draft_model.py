"""A draft model whose tokens are corrected before they are verified; see `drafters.online.corrections`."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from drafters.base import Draft, GoesOn
from drafters.draft_model import DraftModel, Said
from drafters.online.corrections import Before, Corrections
from models.base import LanguageModel, Vocab
from models.sampling.sampler import Sampler
from models.token_map import TokenMap


class CorrectedDraftModel(DraftModel):
    """Drafts as a draft model does, with corrections; notes what the target said at each place that it drafted.

    A rule that draws drafts from a distribution gets uncorrected ones: a correction would depend on the draw.
    """

    def __init__(
        self,
        model: LanguageModel,
        target_vocab: Vocab,
        corrections: Corrections,
        learn: Callable[[], object],
        token_map: TokenMap | None = None,
    ) -> None:
        """Take a loaded draft model, the target's tokens, and the table, with what counts its notes after an answer.

        `token_map` and errors are as of `DraftModel`.
        """
        super().__init__(model, target_vocab, token_map)
        self.learn = learn
        """Counts what the last answer has taught; for the time between answers."""
        self._corrections = corrections
        self._last: CorrectedSaid | None = None

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        """Start an answer, and forget the last draft."""
        self._last = None
        super().begin(prompt, sampler)

    def extend(self, context: Sequence[int], given: Sequence[int], limit: int, goes_on: GoesOn) -> Draft:
        """Return the draft, corrected, and keep what was drafted until the target's tokens are known."""
        self._last = None
        return super().extend(context, given, limit, goes_on)

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        """Note what the target said at each place up to the first that went on otherwise."""
        if self._last is not None:
            self._last.note(emitted)
            self._last = None
        super().accept(emitted, accepted)

    def beside(self, model: LanguageModel) -> "CorrectedDraftModel":
        """Return a new drafter for the same target, with the same corrections."""
        return CorrectedDraftModel(model, self._target_vocab, self._corrections, self.learn, self.token_map)

    def _new_draft(self, context: Sequence[int]) -> Said:
        self._last = CorrectedSaid(self._corrections, context)
        return self._last


class CorrectedSaid(Said):
    """A draft while it is being made, with the model's own token for each place."""

    def __init__(self, corrections: Corrections, context: Sequence[int]) -> None:
        super().__init__()
        self._corrections = corrections
        self._end = tuple(context[-2:])
        self._own: list[tuple[int, int]] = []
        """Place in the draft and the model's own token; what a grammar forces is left out."""

    def proposal(self, sampler: Sampler, row: NDArray[np.float32], context: Sequence[int]) -> bool:
        """Add a row's token, or the one that corrects it, with the row's own as the second choice."""
        if not super().proposal(sampler, row, context):
            return False
        place = len(self.tokens) - 1
        if sampler.accept.draws_drafts or (before := self._before(place, self.tokens)) is None:
            return True
        drafted = self.tokens[place]
        self._own.append((place, drafted))
        better = self._corrections.better(before, drafted)
        # A grammar may not allow it here.
        if better is not None and sampler.grammar is None:
            self.tokens[place] = better
            self.second(drafted)
        return True

    def note(self, emitted: Sequence[int]) -> None:
        """Note the target's token at each place whose text before is the target's own."""
        for place, drafted in self._own:
            if place >= len(emitted) or self.tokens[:place] != list(emitted[:place]):
                return
            before = self._before(place, emitted)
            if before is not None:
                self._corrections.note(before, drafted, emitted[place])

    def _before(self, place: int, tokens: Sequence[int]) -> Before | None:
        """Return the two tokens before a place; None at the beginning of a text."""
        text = (*self._end, *tokens[:place])[-2:]
        return (text[0], text[1]) if len(text) == 2 else None
