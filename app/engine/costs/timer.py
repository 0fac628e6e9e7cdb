"""Timed passes inside a budget of seconds: at least one of each width, more while there is time.

Other programs can only make a pass slower, so a price is the lower quartile of what was taken: neither one lucky pass
nor the many that had to wait. How far the median lies above it tells whether the machine was busy.
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
"""Passes of one width; more would not make a price surer, only older."""
_BUSY = 1.5
_ENOUGH = 3
_JITTER = 0.001
"""Seconds that a pass may be late on any machine."""


class Tunable(LanguageModel, Protocol):
    """A model whose threads, cache and attention can be changed while its weights stay; see `models.llama.model`."""

    options: LlamaOptions
    cache_types: tuple[str, str]

    def use_threads(self, threads: int, batch_threads: int) -> None:
        """Take other numbers of threads; the cache stays."""

    def reopen(self, options: LlamaOptions) -> None:
        """Start over with an empty cache as these options say."""


class Timer:
    """A clock, a number of seconds, and the prices taken by them."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.seconds = seconds
        """The whole budget."""
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
        """Seconds that may still be spent, 0 when all are."""
        return max(0.0, self.seconds - self.elapsed)

    @property
    def busy(self) -> bool:
        """Whether passes took turns with another program: half of them waited far longer than the quickest."""
        return self._waited or any(piece.busy for piece in self._pieces)

    def piece(self, share: float) -> "Timer":
        """Return a timer for this share of what is left, beginning now."""
        self._pieces.append(Timer(self._clock, share * self.left))
        return self._pieces[-1]

    def part(self, share: float) -> float:
        """Return this share of the whole in seconds, or what is left of it."""
        return min(self.left, share * self.seconds)

    def measured_costs(self, model: LanguageModel, widths: Sequence[int], seconds: float) -> dict[int, float]:
        """Return seconds by width for passes after what the cache holds, which stays; what can't be had is left out."""
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
        """Read up to `depth` tokens; return the seconds that it took."""
        started = self._clock()
        text = filler(model, depth)
        while model.length < depth:
            model.decode(text[model.length : model.length + model.batch_size], rows=0)
        return self._clock() - started


def measured_cost(times: Iterable[float]) -> float:
    """Return the lower quartile: the least of up to three, the second of four to seven."""
    ordered = sorted(times)
    return ordered[len(ordered) // 4]


def filler(model: LanguageModel, length: int) -> list[int]:
    """Return so many tokens of text; what they say makes no difference to what they cost."""
    some = model.vocab.tokenize("The quick brown fox jumps over the lazy dog. ", special=False) or [0]
    return (some * (length // len(some) + 1))[:length]


def _waited(times: Sequence[float]) -> bool:
    return len(times) >= _ENOUGH and statistics.median(times) > _BUSY * measured_cost(times) + _JITTER
