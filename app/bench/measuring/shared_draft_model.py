"""Shared draft model, lent to several arms in turn: weights are loaded once, and no arm sees another's text.

Each borrower has a model view of its own. A change of borrowers reads the new one's text again, between answers
(`LentModel.take`), so that it counts in no arm's time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drafters.base import ModelDrafter
from drafters.head import HeadDrafter
from models.base import LanguageModel, Logits, ModelView

_WARM_UP = 3


class Lender:
    """Owner of the draft model, with its current borrower."""

    def __init__(self, model: LanguageModel) -> None:
        """Take a loaded model, and touch its memory once, so that the first borrower does not lose time with that."""
        self.model = model
        self.holder: LentModel | None = None
        for _ in range(_WARM_UP):
            model.decode([model.vocab.bos or 0], rows=1)
        model.rewind(0)

    def lend(self) -> "LentModel":
        """Return a model view with an empty cache of its own."""
        return LentModel(self)

    def close(self) -> None:
        """Free the model."""
        self.model.close()


class LentModel(ModelView):
    """Model view of one borrower; see `models.base.LanguageModel`."""

    def __init__(self, lender: Lender) -> None:
        super().__init__(lender.model)
        self._lender = lender

    def take(self) -> None:
        """Make the shared cache hold this borrower's text."""
        if self._lender.holder is self:
            return
        # No borrower until all is read: a stop on the way leaves half a text.
        self._lender.holder = None
        self._lender.model.rewind(0)
        for start in range(0, len(self._tokens), self.batch_size):
            self._lender.model.decode(self._tokens[start : start + self.batch_size], rows=0)
        self._lender.holder = self

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        """Append tokens; return the logits after the last `rows` of them, shape (rows, vocab.size)."""
        self.take()
        logits = self._lender.model.decode(tokens, rows, parents)
        self._tokens += tokens
        # Siblings come last, and are not kept.
        del self._tokens[self._lender.model.length :]
        return logits

    def rewind(self, length: int) -> None:
        """Cut this borrower's cache to its first `length` tokens."""
        if self._lender.holder is self:
            self._lender.model.rewind(length)
        del self._tokens[length:]

    def close(self) -> None:
        """Give the model back, and forget the text."""
        if self._lender.holder is self:
            self._lender.holder = None
        self._tokens.clear()


@dataclass(frozen=True, slots=True)
class DraftSource:
    """A loaded drafter, from which each arm gets one of its own."""

    drafter: ModelDrafter
    lender: Lender | None
    """Lender of its model; None for a head, which has a cache for each arm."""

    def make(self, target: LanguageModel) -> tuple[ModelDrafter, Callable[[], None]]:
        """Return a new drafter for a target, and what makes it ready before an answer."""
        if self.lender is None:
            return self.drafter.beside(target), _nothing
        lent = self.lender.lend()
        return self.drafter.beside(lent), lent.take


def source_of(drafter: ModelDrafter) -> DraftSource:
    """Return the source of a loaded drafter."""
    return DraftSource(drafter, None if isinstance(drafter, HeadDrafter) else Lender(drafter.model))


def _nothing() -> None:
    """Do nothing."""
