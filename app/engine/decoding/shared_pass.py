"""Shared passes: waiting passes of several answers over one cache, decoded as one pass.

A pass reads every weight of the model, however many tokens it decodes: two answers that share it read them once. Up to
the width at which passes are exact to the last bit, each answer gets the rows that its own pass would give.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from models.base import Companion, LanguageModel, Logits, Part


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of sharing a pass: texts of one cache, and the most passes."""

    text: Companion
    """Text of the answer in the shared cache."""
    passes: int
    """Most passes in one shared pass."""


class Pass:
    """Pass requested by a round: decoded with other waiting passes, or alone when its rows are read."""

    def __init__(self, target: LanguageModel, tokens: Sequence[int], rows: int, parents: Sequence[int]) -> None:
        """Take the arguments of `LanguageModel.decode`."""
        self.target = target
        self.tokens = tokens
        self.bounds: Bounds | None = None
        """Limits of sharing; None: it is not shared."""
        self.others = 0
        """Other passes in the shared pass."""
        self.seconds: float | None = None
        """Seconds of the shared pass; None: not shared."""
        self.counts = True
        """Whether the shared pass is counted here: exactly one of its passes counts it."""
        self._count = rows
        self._parents = parents
        self._rows: Logits | None = None
        self._error: Exception | None = None

    def rows(self) -> Logits:
        """Return the rows, shape (rows, vocab.size); decodes if not done yet; raises as `decode` does."""
        if self._error is not None:
            raise self._error
        if self._rows is None:
            return self.target.decode(self.tokens, self._count, self._parents)
        return self._rows

    def done(self, rows: Logits, others: int, seconds: float) -> None:
        """Take the rows, as `rows` returns them, from a pass shared with `others` others that took `seconds`.

        The next pass over any of its texts overwrites them.
        """
        self._rows, self.others, self.seconds = rows, others, seconds

    def fail(self, error: Exception) -> None:
        """Take the error of a shared pass: `rows` raises it."""
        self._error = error


def gathered(waiting: Iterable[Pass]) -> list[Pass]:
    """Return the first waiting pass and those that form a chain of neighbours with it, longest waiting first."""
    first, *others = waiting
    chosen, growing = [first], True
    while growing:
        joining = next((one for one in others if _fits(one, chosen)), None)
        growing = joining is not None
        if joining is not None:
            chosen.append(joining)
            others.remove(joining)
    return chosen


def together(passes: Sequence[Pass], clock: Callable[[], float]) -> None:
    """Decode gathered passes as one; raises as `decode` does, and then none of them is done."""
    bounds = passes[0].bounds
    assert bounds is not None, "a shared pass has bounds"
    started = clock()
    found = bounds.text.decode_together([Part(one.target, one.tokens[0]) for one in passes])
    seconds = clock() - started
    for one, rows in zip(passes, found, strict=True):
        one.done(rows, len(passes) - 1, seconds)
        one.counts = one is passes[0]


def _fits(one: Pass, chosen: Sequence[Pass]) -> bool:
    """Tell whether a pass may join others, one of which is its neighbour."""
    bounds = [each.bounds for each in (one, *chosen) if each.bounds is not None and len(each.tokens) == 1]
    if len(bounds) <= len(chosen) or len(bounds) > min(each.passes for each in bounds):
        return False
    return any(each.text.can_join(one.target) for each in bounds[1:])
