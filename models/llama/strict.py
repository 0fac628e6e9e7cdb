"""Search for the fastest settings that are exact on this machine now.

Rows of passes of every width are compared by their hashes with the rows of one token at a time: at the start of a text,
where it passes the places at which llama.cpp may choose other kernels, and as deep as there is time and room for. Deep
in a text means attention over so many tokens: copies of the text's beginning do for that, and need not be read.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.base import LanguageModel
from models.llama.exact_width import WIDEST, exact_branches_here
from models.llama.load import LlamaOptions, has_gpu
from models.llama.model import LlamaModel

START = 8
"""Tokens that are read before the first passes, and copied for the deeper ones."""
EDGE, DEEP = 255, 511
"""Tokens before a pass that goes past a multiple of 256, fewer if it is padded: llama.cpp attends to whole blocks."""
_BLOCK = 256
TIMED_WIDTHS = (1, 2, 3, 4, 6, 8)
"""Widths of passes, in tokens, whose seconds decide between settings."""
_STEPS = (8, 16, WIDEST)
"""Widths for which one-token rows are computed at a time: most settings that fail, fail early."""
_LEAST = 8
"""Widths that are compared however long it takes: as wide as drafts mostly are, and one of llama.cpp's limits."""
_TREE = 3
_DOUBLES_WITHIN = 4096
"""Tokens over which a pass costs at least twice as much: a limit to what a noisy clock promises."""
_ACCEPTANCE = 0.7
"""Acceptance probability of a draft token that is assumed in comparisons."""
MARGIN = 0.03
"""A gain below this is noise."""
_TEXT = "The quick brown fox jumps over the lazy dog; 3 of 7 dogs don't mind (much). "


@dataclass(frozen=True, slots=True)
class Difference:
    """A pass that was not exact."""

    width: int
    """Its tokens."""
    depth: int
    """Tokens before it."""
    largest: float
    """By how much a logit differed at most."""

    def __str__(self) -> str:
        size = f"by up to {self.largest:.2g} of a logit"
        return f"a pass of {self.width} tokens after {self.depth:,} differs from one token at a time {size}"


@dataclass(frozen=True, slots=True)
class Checked:
    """Measurements of one setting."""

    width: int
    """Passes of up to so many tokens were all exact, at every depth; 1: none of several tokens was."""
    depths: tuple[int, ...]
    """Tokens before the passes that were compared, ascending."""
    branches: bool
    """True if the rows of branches were exact too, at every depth."""
    difference: Difference | None
    """Difference that limits `width`; None: all compared rows were equal."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting, checked and timed."""

    label: str
    """Name of the setting, for reports; "" for the one that a load without --strict uses."""
    options: LlamaOptions
    seconds: Mapping[int, float]
    """Seconds of a pass by width, some of `TIMED_WIDTHS`, 1 among them."""
    checked: Checked


def check(model: LanguageModel, clock: Callable[[], float], seconds: float, widest: int = WIDEST) -> Checked:
    """Compare passes of 2 up to `widest` tokens; for a memory that goes back any number. Leaves the cache empty.

    A third of the seconds goes to finding how wide passes may be, so that what is found can be checked at three depths;
    a machine too slow or too busy for that is checked for eight tokens all the same.
    """
    try:
        return _Check(model, clock, seconds, widest).run()
    finally:
        model.rewind(0)


class _Check:
    """One check, and what it has found so far."""

    def __init__(self, model: LanguageModel, clock: Callable[[], float], seconds: float, widest: int) -> None:
        self._model = model
        self._clock = clock
        self._share = seconds / 3
        self._width = min(widest, model.max_rows, model.batch_size)
        options = model.options if isinstance(model, LlamaModel) else LlamaOptions()
        self._on_gpu = isinstance(model, LlamaModel) and has_gpu(options)
        self._pads = options.pad_rows - 1
        # A pass over a tree can't be done in parts where it goes past a block: see `Cache.even_width`.
        self._branches = model.max_branches > 0 and not (self._pads and self._on_gpu)
        self._edge = EDGE - self._pads
        self._difference: Difference | None = None
        self._seconds: dict[int, float] = {}
        text = model.vocab.tokenize(_TEXT, special=False) or [0]
        self._text = (text * model.context_size)[: model.context_size]

    def run(self) -> Checked:
        for depth in (START, self._edge):
            self._look(depth)
        if self._edge in self._seconds:
            self._look(self._deepest())
        # Where the context had no room for a check, nothing is known to be exact.
        width = self._width if self._seconds else 1
        return Checked(width, tuple(self._seconds), self._branches and width >= _TREE, self._difference)

    def _look(self, depth: int) -> None:
        """Compare at one depth, if anything is left to compare there, and a pass fits."""
        if self._width == 1 or depth + self._width > self._model.context_size:
            return
        started = self._clock()
        place = self._go_to(depth)
        until = started + self._share if not self._seconds else float("inf")
        steps = _STEPS if not self._seconds else (self._width,)
        self._width = self._widest(place, sorted({min(step, self._width) for step in steps}), until, depth)
        if self._branches and self._width >= _TREE:
            self._model.rewind(place)
            self._branches = exact_branches_here(self._model, _TREE)
        self._seconds[depth] = self._clock() - started

    def _widest(self, place: int, steps: Sequence[int], until: float, depth: int) -> int:
        """Return the widest pass whose narrower ones were all exact, as far as there is time."""
        widest = 1
        for step in steps:
            tokens = self._text[place : place + step]
            self._model.rewind(place)
            narrow = [self._model.decode([token], rows=1)[0].copy() for token in tokens]
            hashes = [_hash(row) for row in narrow]
            for width in range(widest + 1, step + 1):
                if width > _LEAST and self._clock() > until:
                    return widest
                self._model.rewind(place)
                rows = self._model.decode(tokens[:width], rows=width)
                if [_hash(row) for row in rows] != hashes[:width]:
                    self._difference = Difference(width, depth, float(np.abs(rows - narrow[:width]).max()))
                    return widest
                widest = width
        return widest

    def _go_to(self, depth: int) -> int:
        """Bring the cache to a depth; return its length."""
        self._model.rewind(0)
        read = START if isinstance(self._model, LlamaModel) else depth
        while self._model.length < read:
            end = min(read, self._model.length + self._model.batch_size)
            self._model.decode(self._text[self._model.length : end], rows=0)
        if isinstance(self._model, LlamaModel):
            self._model.stretch(depth)
        return self._model.length

    def _deepest(self) -> int:
        """Return the deepest place at which a look should be over in time, or `DEEP`, as far as the context goes."""
        start, edge = self._seconds[START], self._seconds[self._edge]
        a_token = max((edge - start) / (self._edge - START), edge / _DOUBLES_WITHIN)
        affordable = self._edge + int((self._share - edge) / a_token)
        deepest = min(max(DEEP, affordable), self._model.context_size - self._width)
        # Before the end of a block, the sums of a GPU show whether they depend on how many there are.
        at_a_block = deepest - (deepest + 1 + self._pads) % _BLOCK
        return at_a_block if self._on_gpu and at_a_block > self._edge else deepest


def best(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial to take: of those that are exact for several tokens the one with the quickest token.

    A token costs `seconds_a_token`: plain speed counts for half, so that a wider exact pass, which lets drafts gain
    more, can make up for a dearer plain one. An earlier trial keeps its place against a gain that may be noise.
    """
    chosen: Trial | None = None
    for trial in trials:
        if trial.checked.width > 1 and (chosen is None or gains(trial.seconds, trial.checked.width, chosen)):
            chosen = trial
    return chosen


def gains(seconds: Mapping[int, float], width: int, chosen: Trial) -> bool:
    """Return whether passes of these seconds, exact up to a width, are faster than a trial by more than noise."""
    return seconds_a_token(seconds, width) < (1 - MARGIN) * seconds_a_token(chosen.seconds, chosen.checked.width)


def seconds_a_token(seconds: Mapping[int, float], width: int) -> float:
    """Return the mean of the seconds of a plain token and of one drafted in the best pass up to a width."""
    return (seconds[1] + min(spent / _emitted(wide) for wide, spent in seconds.items() if wide <= width)) / 2


def _emitted(width: int) -> float:
    """Return the tokens that a pass of this width yields (Leviathan et al., 2023, equation 1)."""
    return (1 - _ACCEPTANCE**width) / (1 - _ACCEPTANCE)


def _hash(row: NDArray[np.float32]) -> bytes:
    return hashlib.blake2b(row.tobytes(), digest_size=16).digest()
