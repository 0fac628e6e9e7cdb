"""Measurement of a draft model: the fastest attention, and whether a re-quantised copy would be faster.

The target verifies every draft token, so a draft model need not be exact: the fastest setting is chosen. A copy's
drafts may be a little worse, so a copy must gain more than another attention.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

from app.engine.costs.draft_copy import is_whole_copy, is_written_at_load, keep_copy, place_of_copy
from app.engine.costs.timer import Timer, Tunable
from app.engine.costs.tuned import Setting, TunedDraft
from app.tune.measuring.target import SHALLOW, Open, Tell, default_setting, label, plain_attention, tuning_options
from app.tune.measuring.threads import quickest_threads, starved, thread_costs, thread_counts
from models.errors import Cancelled, LocalspecError
from models.llama.load import LlamaOptions
from models.system.sealed import remove_sealed

KINDS = {"Q4_K_M": "Q4_K - Medium", "IQ4_NL": "IQ4_NL", "Q4_0": "Q4_0"}
"""Quantisations to try, the most accurate first, with llama.cpp's descriptions of files that have them already."""
_GAIN = 0.03
_GAIN_OF_A_COPY = 0.05
_BYTES_A_SECOND = {"Q4_K_M": 40e6, "IQ4_NL": 4e6, "Q4_0": 40e6}
"""Estimated bytes of the source written in a second on few cores; decides only whether to begin. IQ4_NL is slower."""
_UNFINISHED = "unfinished-"
_STALE = 24 * 3600.0
Requantise = Callable[[Path, Path, str], None]
"""Writes a copy of the first file to the second in a quantisation; raises LocalspecError."""


@dataclass(frozen=True, slots=True)
class DraftMeasure:
    """Setting of a draft model, with the cost of its steps."""

    label: str
    setting: Setting
    one_token: Mapping[int, float]
    """Seconds of a step by the number of tokens in the cache."""
    kind: str = ""
    """Quantisation of a copy; "" for the file itself."""
    size: int = 0
    """Bytes of the file."""


@dataclass(slots=True)
class DraftFindings:
    """Findings about a draft model so far."""

    model: str = ""
    rows: list[DraftMeasure] = field(default_factory=list)
    """Measured settings; the first is a load's default."""
    starved: bool = False
    """Whether other programs used the cores so much that no measurement is worth storing."""
    tuned: TunedDraft | None = None
    """Result to store; None until everything is measured, and for a disturbed run."""
    notes: list[str] = field(default_factory=list)


class DraftTuner:
    """Measurement of one draft model; copies are made in `folder`, and kept if requested."""

    def __init__(
        self, timer: Timer, open_model: Open, tell: Tell, requantise: Requantise, folder: Path, *, keep: bool
    ) -> None:
        self.findings = DraftFindings()
        self._timer = timer
        self._open = open_model
        self._tell = tell
        self._requantise = requantise
        self._folder = folder
        self._keep = keep
        self._replaced: list[Path] = []

    def run(self, path: Path, options: LlamaOptions, deep: int) -> None:
        """Measure a file, also at `deep` tokens if there is time; raises LocalspecError where it can't be loaded."""
        setting = default_setting(options)
        self.findings.model = path.stem
        model = self._open(path, tuning_options(setting, options))
        try:
            description = model.description
            self._as_it_is(model, setting, path, deep, thread_counts(options.threads))
        finally:
            model.close()
        quickest = quickest_row(self.findings.rows, _GAIN)
        # The last one first: it is the fastest on most machines, and there may be no time for all.
        kinds = [kind for kind, words in reversed(KINDS.items()) if words not in description]
        copies = [row for kind in kinds if (row := self._copy(path, kind, options, quickest)) is not None]
        chosen = quickest_row([quickest, *reversed(copies)], _GAIN_OF_A_COPY)
        wanted = chosen.kind
        kept = self._kept(path, wanted) if wanted else None
        if kept is not None and not kept.is_file():
            self.findings.notes.append(_worth_keeping(path, chosen, quickest))
            kept, chosen = None, quickest
        if not self.findings.starved:
            beats_copies = bool(copies) and not wanted
            self.findings.tuned = TunedDraft(chosen.setting, chosen.one_token, kept, beats_copies)
        self._replaced = [self._kept(path, row.kind) for row in copies if self._kept(path, row.kind) != kept]

    def _as_it_is(self, model: Tunable, setting: Setting, path: Path, deep: int, counts: Sequence[int]) -> None:
        """Measure both kinds of attention, also deep in a text if there is time."""
        self._tell(f"{path.stem}: threads")
        measured_costs = thread_costs(model, self._timer, counts, self._timer.part(0.04))
        self.findings.starved = starved(measured_costs)
        setting = quickest_threads(measured_costs, setting)
        for way in (setting, plain_attention(setting)):
            model.reopen(tuning_options(way, model.options))
            self._row(model, way, path, deep)

    def _row(self, model: Tunable, setting: Setting, path: Path, deep: int, kind: str = "") -> DraftMeasure:
        """Time steps at the start of a text, and deep in it if there is time; add a row."""
        name = f"{kind} copy, {label(model)}" if kind else label(model)
        self._tell(f"{path.stem}: {name}")
        bounded = model.rewind_support.limit is not None
        reading = 0.0 if bounded else self._timer.read(model, SHALLOW)
        seconds = {model.length: self._step(model)}
        if deep > SHALLOW and not bounded and deep * reading / SHALLOW < self._timer.part(0.12):
            self._timer.read(model, deep)
            seconds[deep] = self._step(model)
        row = DraftMeasure(name, setting, seconds, kind, path.stat().st_size)
        self.findings.rows.append(row)
        return row

    def _step(self, model: Tunable) -> float:
        return self._timer.measured_costs(model, (1,), self._timer.part(0.02))[1]

    def _copy(self, path: Path, kind: str, options: LlamaOptions, quickest: DraftMeasure) -> DraftMeasure | None:
        """Measure a copy in another quantisation; None where there is no time, or it can't be made."""
        kept = self._kept(path, kind)
        if is_whole_copy(kept):
            return self._measure_copy(kept, kind, options, quickest)
        if not self._keep and path.stat().st_size / _BYTES_A_SECOND[kind] > self._timer.left:
            self.findings.notes.append(f"There was no time for a copy of it in {kind}: give more --seconds, or --keep.")
            return None
        self._tell(f"{path.stem}: writing a copy in {kind}")
        try:
            return self._measure_new(path, kind, options, quickest)
        except Cancelled:
            raise
        except (LocalspecError, OSError) as error:
            self.findings.notes.append(f"No copy of it in {kind} was tried: {error}".replace("\n", " "))
            return None

    def _measure_new(self, path: Path, kind: str, options: LlamaOptions, quickest: DraftMeasure) -> DraftMeasure:
        """Make a copy, measure it, and keep it if that was requested and it is faster."""
        clear_unfinished(self._folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=self._folder) as folder:
            copy = Path(folder) / f"{path.stem}.gguf"
            self._requantise(path, copy, kind)
            row = self._measure_copy(copy, kind, options, quickest)
            wanted = self._keep and not self.findings.starved
            if wanted and quickest_row([quickest, row], _GAIN_OF_A_COPY) is row:
                keep_copy(copy, self._kept(path, kind))
        return row

    def _measure_copy(self, copy: Path, kind: str, options: LlamaOptions, quickest: DraftMeasure) -> DraftMeasure:
        model = self._open(copy, tuning_options(quickest.setting, options))
        try:
            return self._row(model, quickest.setting, copy, max(quickest.one_token), kind)
        finally:
            model.close()

    def _kept(self, path: Path, kind: str) -> Path:
        return place_of_copy(self._folder, path, kind)

    def forget_replaced(self, used: Path | None = None) -> None:
        """Delete copies that the choice replaces, except `used`, which other runs need.

        Call it after the choice is stored: the earlier stored result names them.
        """
        for place in self._replaced if self._keep else []:
            if place != used:
                remove_sealed(place)


def quickest_row(rows: Sequence[DraftMeasure], gain: float) -> DraftMeasure:
    """Return the first row that is at most `gain` slower than the fastest, at their common depths."""
    quickest = min(rows, key=lambda row: _relative(row, rows[0]))
    return next(row for row in rows if _relative(quickest, row) >= 1 - gain)


def clear_unfinished(folder: Path) -> None:
    """Delete folders of killed runs; a folder of today may belong to a running process."""
    for place in folder.glob(f"{_UNFINISHED}*"):
        with suppress(OSError):
            if time.time() - place.stat().st_mtime > _STALE:
                rmtree(place, ignore_errors=True)


def _relative(row: DraftMeasure, first: DraftMeasure) -> float:
    shared = sorted(set(row.one_token) & set(first.one_token))
    ratios = [row.one_token[depth] / first.one_token[depth] for depth in shared]
    return sum(ratios) / len(ratios) if ratios else 1.0


def _worth_keeping(path: Path, copy: DraftMeasure, quickest: DraftMeasure) -> str:
    gain = 1 - _relative(copy, quickest)
    places = "the next run that drafts with it, or --keep," if is_written_at_load(path, copy.kind) else "--keep"
    return (
        f"A copy of the draft model in {copy.kind} ({copy.size / 2**20:,.0f} MiB) would be {gain:.0%} faster: "
        f"{places} puts it into the cache folder, and later runs use it. The text stays the same."
    )
