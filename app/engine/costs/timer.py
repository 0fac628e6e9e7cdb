"""Timer of passes within a budget of seconds: at least one pass of each width, more while there is time.

Other programs can only slow a pass down, so a cost is the lower quartile of its times: neither one lucky pass nor the
many that had to wait. The distance of the median above it tells whether the machine was busy.
"""

import statistics
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from typing import Protocol, cast

from app.engine.costs.pass_cost import timed_passes
from app.engine.decoding.round import Clock
from models.base import LanguageModel
from models.llama.load import LlamaOptions

_MOST = 5
"""Most passes of one width; more would not make the result more precise."""
_BUSY = 1.5
_ENOUGH = 3
_JITTER = 0.001
"""Seconds of delay that a pass may have on any machine."""


class Tunable(LanguageModel, Protocol):
    """Model whose threads, cache and attention can be changed while its weights stay; see `models.llama.model`."""

    options: LlamaOptions
    cache_types: tuple[str, str]

    def use_threads(self, threads: int, batch_threads: int) -> None:
        """Set other numbers of threads; the cache stays."""

    def reopen(self, options: LlamaOptions) -> None:
        """Start over with an empty cache under these options."""


class Timer:
    """Clock with a budget of seconds, and the costs measured by it."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.seconds = seconds
        """Whole budget in seconds."""
        self._waited = False
        self._pieces: list[Timer] = []
        self._clock = clock
        self._started = clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._started

    @property
    def left(self) -> float:
        """Seconds left of the budget, at least 0."""
        return max(0.0, self.seconds - self.elapsed)

    @property
    def busy(self) -> bool:
        """Whether another program was running: half of the passes took far longer than the fastest."""
        return self._waited or any(piece.busy for piece in self._pieces)

    def piece(self, share: float) -> "Timer":
        """Return a timer for this share of the seconds left, starting now."""
        self._pieces.append(Timer(self._clock, share * self.left))
        return self._pieces[-1]

    def part(self, share: float) -> float:
        """Return this share of the whole budget in seconds, at most the seconds left."""
        return min(self.left, share * self.seconds)

    def measured_costs(self, model: LanguageModel, widths: Sequence[int], seconds: float) -> dict[int, float]:
        """Return seconds by width for passes after the cache's content, which stays; without widths that don't fit."""
        taken: dict[int, list[float]] = {}
        until = self._clock() + seconds
        timed = cast(Generator[tuple[int, float], None, None], timed_passes(model, self._clock, widths, _MOST))
        with closing(timed) as passes:
            for width, spent in passes:
                if width in taken and self._clock() > until:
                    break
                taken.setdefault(width, []).append(spent)
        self._waited |= any(_waited(times) for times in taken.values())
        return {width: measured_cost(times) for width, times in sorted(taken.items())}

    def read(self, model: LanguageModel, depth: int) -> float:
        """Read up to `depth` tokens; return the seconds taken."""
        started = self._clock()
        text = filler(model, depth)
        while model.length < depth:
            model.decode(text[model.length : model.length + model.batch_size], rows=0)
        return self._clock() - started


def measured_cost(times: Iterable[float]) -> float:
    """Return the lower quartile: the least of up to three times, the second of four to seven."""
    ordered = sorted(times)
    return ordered[len(ordered) // 4]


def filler(model: LanguageModel, length: int) -> list[int]:
    """Return `length` tokens of text; costs do not depend on which."""
    some = model.vocab.tokenize("The quick brown fox jumps over the lazy dog. ", special=False) or [0]
    return (some * (length // len(some) + 1))[:length]


def _waited(times: Sequence[float]) -> bool:
    return len(times) >= _ENOUGH and statistics.median(times) > _BUSY * measured_cost(times) + _JITTER
