"""Measurement of a target: its fastest threads, attention and weights on this machine, and its pass costs by width.

Every part has a share of the user's seconds; parts that do not fit are left out, with a note. Results are added to
`TargetFindings` as they come, so that a stopped run can show them; nothing is stored here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.engine.costs.timer import Timer, Tunable
from app.engine.costs.tuned import Setting, Tuned
from app.tune.measuring.choice import DEEP, WIDTHS, Measure, best, relative
from app.tune.measuring.threads import ThreadPrice, quickest_threads, starved, thread_costs, thread_counts
from models.base import LanguageModel
from models.llama.exact_width import WIDEST, exact_width, exact_width_here
from models.llama.load import LlamaOptions, has_gpu, threads_of

SHALLOW = 16
"""Tokens in the cache for the pass costs, and for all other measurements that need no depth."""
DEEPEST = (1024, 768, 512, 384, 288)
"""Depths for the deep measurement, of which the first affordable one is taken; all beyond `choice.DEEP`."""
CURVE = (1, 2, 3, 4, 8, 16, 5, 6, 7, 32, 12, 9, 10, 11, 13, 14, 15, 24, 48, 64)
"""Widths of the pass costs, the most important first, if there is no time for all."""
_ROWS, _CURVE_ROWS = WIDEST, max(CURVE)
_ROOM = DEEPEST[0] + 128
_READING = 0.75
"""Cost of a token in a full pass over that in a pass of `SHALLOW` tokens: an upper bound for most machines."""
Open = Callable[[Path, LlamaOptions], Tunable]
"""Loads a model for tuning; raises LocalspecError."""
Tell = Callable[[str], None]
"""Receives a text on the present measurement."""


@dataclass(slots=True)
class TargetFindings:
    """Findings about a target so far."""

    model: str = ""
    description: str = ""
    threads: list[ThreadPrice] = field(default_factory=list)
    rows: list[Measure] = field(default_factory=list)
    """Measured settings, the default first."""
    chosen: Measure | None = None
    starved: bool = False
    """Whether other programs used the cores so much that no measurement is worth storing."""
    tuned: Tuned | None = None
    """Result to store; None until everything is measured, and for a disturbed run."""
    notes: list[str] = field(default_factory=list)


class Tuner:
    """Measurement of one target."""

    def __init__(self, timer: Timer, open_model: Open, tell: Tell, *, allow_rounding: bool = False) -> None:
        self.findings = TargetFindings()
        self._timer = timer
        self._open = open_model
        self._tell = tell
        self._allow_rounding = allow_rounding
        self._deep: int | None = None
        self._counts: list[int] = []

    def run(self, path: Path, options: LlamaOptions) -> None:
        """Measure a file; `options` set the GPU layers, and whether extra buffers are safe."""
        self._counts = thread_counts(options.threads)
        setting = default_setting(options)
        started = self._timer.elapsed
        model = self._open(path, tuning_options(setting, options))
        setting = replace(setting, extra_buffers=model.options.extra_buffers)
        loading = self._timer.elapsed - started
        try:
            self._describe(model)
            verify = self._with_these_weights(model, setting)
        finally:
            model.close()
        if setting.extra_buffers and not has_gpu(options):
            verify = self._without_repacking(path, options, loading) or verify
        assert self.findings.chosen is not None
        if not self.findings.starved:
            self.findings.tuned = as_tuned(self.findings.chosen, verify)

    def _describe(self, model: Tunable) -> None:
        self.findings.model, self.findings.description = model.name, model.description

    def _with_these_weights(self, model: Tunable, setting: Setting) -> Mapping[int, float]:
        """Compare both kinds of attention, choose one, and return its pass costs."""
        self._tell("threads")
        setting = self._best_threads(model, setting)
        self._compare(model, setting, deep=True)
        model.reopen(tuning_options(plain_attention(setting), model.options))
        self._compare(model, plain_attention(setting), deep=True)
        self.findings.chosen = best(self.findings.rows, allow_rounding=self._allow_rounding)
        return self._curve(model, self.findings.chosen)

    def _without_repacking(self, path: Path, options: LlamaOptions, loading: float) -> Mapping[int, float] | None:
        """Try the chosen setting with weights that are not rearranged; return its pass costs if it is chosen."""
        chosen = self.findings.chosen
        assert chosen is not None
        setting = replace(chosen.setting, extra_buffers=False)
        if self._timer.left < loading + 2 * sum(chosen.seconds[min(chosen.seconds)].values()):
            self.findings.notes.append("There was no time to try weights that are not rearranged: give more --seconds.")
            return None
        model = self._open(path, tuning_options(setting, options))
        try:
            row = self._compare(model, setting, deep=False)
            if relative(row, chosen, allow_rounding=self._allow_rounding) >= 1:
                # Without a deep measurement it can't be compared with settings that have one.
                return None
            if self._deep is not None:
                row = self._deepen(model, row, self._deep)
            self.findings.chosen = best(self.findings.rows, allow_rounding=self._allow_rounding)
            return self._curve(model, row) if self.findings.chosen is row else None
        finally:
            model.close()

    def _best_threads(self, model: Tunable, setting: Setting) -> Setting:
        """Return the setting with the fastest threads that is as exact as one thread for each physical core."""
        measured_costs = self.findings.threads = thread_costs(model, self._timer, self._counts, self._timer.part(0.1))
        default, setting = setting, quickest_threads(measured_costs, setting)
        self.findings.starved = starved(measured_costs)
        if setting != default and not self.findings.starved:
            narrower = _exact_with(model, setting) < _exact_with(model, default)
            setting = default if narrower and not self._allow_rounding else setting
        model.use_threads(setting.threads, setting.batch_threads)
        return setting

    def _compare(self, model: Tunable, setting: Setting, *, deep: bool) -> Measure:
        """Measure a setting at the start of a text and, if requested and affordable, deep in it; add a row."""
        row = Measure(label(model), setting, {}, {})
        self.findings.rows.append(row)
        bounded = model.rewind_support.limit is not None
        started = self._timer.elapsed
        reading = 0.0 if bounded else self._timer.read(model, SHALLOW)
        row = self._at_this_depth(model, row, exact_width(model) if bounded else None)
        spent = self._timer.elapsed - started
        if not deep or bounded:
            return row
        if len(self.findings.rows) == 1:
            self._deep = self._affordable_depth(model, _READING * reading / SHALLOW, spent)
        return row if self._deep is None else self._deepen(model, row, self._deep)

    def _deepen(self, model: Tunable, row: Measure, depth: int) -> Measure:
        self._tell(f"{row.label}: reading {depth:,} tokens")
        self._timer.read(model, depth)
        return self._at_this_depth(model, row)

    def _at_this_depth(self, model: Tunable, row: Measure, exact: int | None = None) -> Measure:
        """Return the row with costs and exactness at the cache's depth added, and replace it among the rows."""
        depth = model.length
        self._tell(f"{row.label}, at {depth:,} tokens")
        measured_costs = self._timer.measured_costs(model, WIDTHS, self._timer.part(0.06))
        widest = exact if exact is not None else exact_width_here(model)
        more = replace(row, seconds={**row.seconds, depth: measured_costs}, exact={**row.exact, depth: widest})
        self.findings.rows[-1] = more
        return more

    def _affordable_depth(self, model: Tunable, seconds_a_token: float, passes: float) -> int | None:
        """Return the depth that two settings can read to in their share of time; None for none."""
        room = model.context_size - max(WIDTHS) - 1
        for depth in DEEPEST:
            if depth <= room and 2 * (depth * seconds_a_token + passes) <= self._timer.part(0.38):
                return depth
        cause = "its context is too short" if room < DEEPEST[-1] else "there was no time: give more --seconds"
        self.findings.notes.append(f"Nothing was measured beyond {DEEP} tokens of context: {cause}.")
        return None

    def _curve(self, model: Tunable, row: Measure) -> Mapping[int, float]:
        """Return seconds by width for the chosen setting."""
        rows = _ROWS if model.rewind_support.limit is not None else _CURVE_ROWS
        model.reopen(replace(tuning_options(row.setting, model.options), max_rows=rows))
        depth = min(row.seconds)
        self._timer.read(model, depth)
        self._tell("the verify curve")
        seconds, known = self._timer.part(0.2), row.seconds[depth]
        measured_costs = self._timer.measured_costs(model, affordable(known, seconds), seconds)
        return {width: min(taken, known.get(width, taken)) for width, taken in measured_costs.items()}


def measure_curve(model: LanguageModel, timer: Timer) -> tuple[dict[int, float], int]:
    """Return seconds by width, and the exact width, of a model without settings to choose."""
    widest = exact_width(model)
    return timer.measured_costs(model, CURVE, timer.part(0.5)), widest


def as_tuned(row: Measure, verify: Mapping[int, float]) -> Tuned:
    """Return the result to store for the chosen setting."""
    one_token = {depth: seconds[1] for depth, seconds in row.seconds.items()}
    return Tuned(row.setting, row.exact_width, dict(verify), min(row.seconds), one_token)


def affordable(known: Mapping[int, float], seconds: float) -> list[int]:
    """Return the widths that can be timed once in `seconds`, 1 to 4 in any case, in order."""
    widest = max(known)
    chosen: list[int] = []
    for place, width in enumerate(CURVE):
        near = min((other for other in known if other >= width), default=widest)
        seconds -= known[near] * max(1.0, width / near)
        if seconds >= 0 or place < 4:
            chosen.append(width)
    return sorted(chosen)


def default_setting(options: LlamaOptions) -> Setting:
    """Return a load's default setting with these options."""
    return Setting(*threads_of(options), extra_buffers=options.extra_buffers)


def plain_attention(setting: Setting) -> Setting:
    """Return the setting without flash attention and with the cache type that suits it: fast deep in a text."""
    return replace(setting, flash_attention=False, cache_type_k="f16", cache_type_v="f16")


def tuning_options(setting: Setting, base: LlamaOptions) -> LlamaOptions:
    """Return options with room for the deep measurement, and no more: a cache takes its memory at once."""
    return replace(setting.options(base), context_size=_ROOM, max_rows=_ROWS)


def label(model: Tunable) -> str:
    """Return a setting in words, with automatic values resolved."""
    flash = model.options.flash_attention
    attention = "no flash attention" if flash is False else "flash attention"
    if flash is None and has_gpu(model.options):
        attention = "llama.cpp's choice of attention"
    cache = "/".join(dict.fromkeys(model.cache_types))
    return f"{attention}, {cache} cache" + ("" if model.options.extra_buffers else ", plain weights")


def _exact_with(model: Tunable, setting: Setting) -> int:
    model.use_threads(setting.threads, setting.batch_threads)
    return exact_width(model)
