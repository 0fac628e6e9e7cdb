"""Toys whose passes over several tokens come out a little different, as real arithmetic does, and a lot, as bugs do."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.base import Logits
from models.toy import ToyModel


class RoundingToy(ToyModel):
    """Moves the logits of a pass over several tokens by about `amplitude`, by its width and the place in it."""

    amplitude = 0.15

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        logits = super().decode(tokens, rows, parents)
        width = len(tokens)
        if width > 1:
            for place, row in enumerate(logits, start=width - rows):
                label = (width, place, int(row.view(np.uint32).sum()))
                row += np.float32(self.amplitude) * np.random.default_rng(label).normal(size=len(row))
        return logits


class RoundingHistory(ToyModel):
    """Moves logits by the widths of all passes that read the text, as where the cells of a cache are rounded."""

    amplitude = 0.15
    _widths: tuple[int, ...] = ()

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        self._widths = (*self._widths[: self.length], *[len(tokens)] * len(tokens))
        logits = super().decode(tokens, rows, parents)
        for end, row in enumerate(logits, start=len(self._widths) - rows + 1):
            label = (*self._widths[:end], int(row.view(np.uint32).sum()))
            row += np.float32(self.amplitude) * np.random.default_rng(label).normal(size=len(row))
        return logits


class OffByOne(ToyModel):
    """Returns the rows of a pass over several tokens one place too late."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        return np.roll(super().decode(tokens, rows, parents), 1, axis=0)


class KeepsStaleRow(ToyModel):
    """After a rewind the place of the first dropped token is not written again: it goes on holding that token."""

    stale: Sequence[int] = ()

    def rewind(self, length: int) -> None:
        if length < self.length:
            self.stale = self._cache[length : length + 1] if length else ()
        super().rewind(length)

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        stale, self.stale = self.stale, ()
        return super().decode([*stale, *tokens[len(stale) :]], rows, parents)


def with_amplitude(amplitude: float) -> type[RoundingToy]:
    """Return the rounding toy with another amplitude."""
    return type("RoundingToy", (RoundingToy,), {"amplitude": amplitude})


def cuts_of(target: ToyModel) -> list[int]:
    """Return a list that fills with the lengths that a target is cut to."""
    cuts: list[int] = []
    rewind = target.rewind

    def noted(length: int) -> None:
        cuts.append(length)
        rewind(length)

    target.rewind = noted  # type: ignore[method-assign]
    return cuts


def passes_of(target: ToyModel) -> list[tuple[int, int]]:
    """Return a list that fills with the tokens and rows of each pass."""
    passes: list[tuple[int, int]] = []
    decode = target.decode

    def noted(tokens: Sequence[int], rows: int, *more: Any) -> Logits:
        passes.append((len(tokens), rows))
        return decode(tokens, rows, *more)

    target.decode = noted  # type: ignore[method-assign]
    return passes
