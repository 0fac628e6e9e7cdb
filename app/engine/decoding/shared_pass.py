"""Passes that wait to be shared: those of several answers over one cache are done as one.

A pass reads every weight of the model, whatever it decodes: two answers that share it have read them once. As wide as a
pass is exact to the last bit, it gives each answer what its own pass would.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from models.base import Companion, LanguageModel, Logits, Part


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a pass may be done with: with texts of the same cache, and with only so many."""

    text: Companion
    """The target, as one of the texts of its cache."""
    passes: int
    """Most passes that are one."""


class Pass:
    """A pass that a round asks for: done with others that wait, or else alone when its rows are wanted."""

    def __init__(self, target: LanguageModel, tokens: Sequence[int], rows: int, parents: Sequence[int]) -> None:
        """Take the arguments of `LanguageModel.decode`."""
        self.target = target
        self.tokens = tokens
        self.bounds: Bounds | None = None
        """What it may be done with; None: with nothing."""
        self.others = 0
        """Passes of others that were done with it."""
        self.seconds: float | None = None
        """Time of the pass that was shared; None: it was not."""
        self.counts = True
        """Whether it stands for the pass that was shared, where each is counted once: one of those in it does."""
        self._count = rows
        self._parents = parents
        self._rows: Logits | None = None
        self._error: Exception | None = None

    def rows(self) -> Logits:
        """Return the rows, shape (rows, vocab.size), doing the pass if nobody has; raises as `decode` does."""
        if self._error is not None:
            raise self._error
        if self._rows is None:
            return self.target.decode(self.tokens, self._count, self._parents)
        return self._rows

    def done(self, rows: Logits, others: int, seconds: float) -> None:
        """Take the rows, as `rows` returns them, of a pass that was shared with so many others and took `seconds`.

        They are overwritten by the next pass over any of its texts.
        """
        self._rows, self.others, self.seconds = rows, others, seconds

    def fail(self, error: Exception) -> None:
        """Take what went wrong with a pass that was shared: `rows` raises it."""
        self._error = error


def gathered(waiting: Iterable[Pass]) -> list[Pass]:
    """Return the first pass that waits, and those that make a chain of companions with it: who waits longest first."""
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
    """Do passes that were gathered as one; raises as `decode` does, and none of them is done then."""
    bounds = passes[0].bounds
    assert bounds is not None, "who shares a pass says with which"
    started = clock()
    found = bounds.text.decode_together([Part(one.target, one.tokens[0]) for one in passes])
    seconds = clock() - started
    for one, rows in zip(passes, found, strict=True):
        one.done(rows, len(passes) - 1, seconds)
        one.counts = one is passes[0]


def _fits(one: Pass, chosen: Sequence[Pass]) -> bool:
    """Tell whether a pass may be done with others, of which one is its neighbour."""
    bounds = [each.bounds for each in (one, *chosen) if each.bounds is not None and len(each.tokens) == 1]
    if len(bounds) <= len(chosen) or len(bounds) > min(each.passes for each in bounds):
        return False
    return any(each.text.can_join(one.target) for each in bounds[1:])
