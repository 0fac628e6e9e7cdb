"""Measurements of loaded models on this machine, each made at first use and kept: costs of passes, exact widths."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from app.engine.costs.block_cost import BLOCK_WIDTHS, block_table
from app.engine.costs.exact_settings import check_now
from app.engine.costs.half_threads import GENTLE, half_of, half_threads_cost
from app.engine.costs.measurement_key import MeasurementKey, ModelRun, Quantity, settings_text
from app.engine.costs.pass_cost import DRAFT_WIDTHS, HEAD_WIDTHS, READ_WIDTHS, VerifyCurve, is_steady, measure_steady
from app.engine.costs.tuned import Tuned, load_tuned, measured_for
from app.engine.decoding.round import Clock
from app.engine.runtime.load import LoadPlan, Progress
from models.base import LanguageModel
from models.heads.block_model import BlockModel, WholeBlocks
from models.heads.head_model import HeadModel
from models.llama.cache_types import summed_in_parts
from models.llama.exact_width import WIDEST, exact_branches, exact_threads, exact_width
from models.llama.load import has_gpu, threads_of
from models.llama.model import LlamaModel
from models.llama.probe import identity
from models.llama.strict import Checked
from models.system.free_cores import free_cores
from models.system.machine import physical_cores
from models.system.other_programs import OtherPrograms
from models.system.power import on_battery
from models.system.remembered import Json, Remembered

_SECONDS = 1.5
"""Seconds for the curve of one model: it is measured while a user waits for the first answer."""
_FEWEST = 2
"""Threads that have a half."""
_BUSY = 0.15
"""Share of the cores, held by other programs, from which a measurement is disturbed."""
_DISTURBED = "disturbed"
"""Entry of a stored curve beside its widths: it was measured while other programs held the cores."""
_GOOD_SECONDS = 600.0
"""Seconds for which a disturbed curve is good enough for later loads of this process."""
_last_measured: dict[str, float] = {}
"""Times of this process's measurements of disturbed curves, by their keys."""


class MachineMeasurements:
    """Measures loaded models, whose caches are empty then; what the file of measurements has is not measured again.

    Methods return values without notes: a measurement that says something to the user is judged by its caller.
    """

    def __init__(
        self,
        plan: LoadPlan,
        clock: Clock,
        on_progress: Progress,
        checked: Checked | None = None,
        others: Callable[[], float] | None = None,
    ) -> None:
        """Take the plan that models were loaded by, and for `--strict` what was checked at the load of the target.

        `others` returns the share of the cores that other programs held since its last call.
        """
        self._plan = plan
        self._clock = clock
        self._on_progress = on_progress
        self._known = Remembered(plan.memory)
        self._checked = checked
        self._others = others or OtherPrograms()

    def exact_width(self, target: LanguageModel) -> int:
        """Return the widest pass, in tokens, that equals one-token passes bit for bit; at least 1.

        `--strict` looks at the target as it runs now, and keeps nothing.
        """
        if self._plan.strict:
            self._checked = self._checked or check_now(target, self._clock)
            return self._checked.width
        if not isinstance(target, LlamaModel):
            return exact_width(target)
        # "deep": earlier records of such caches hold for the beginning of a text alone.
        scope = f"{WIDEST} deep" if summed_in_parts(target.cache_types) else f"{WIDEST}"
        key = self._key(Quantity.EXACT_WIDTH, target, scope)
        if (width := self._known.get(key)) is None:
            self._on_progress(f"{target.name}: checking exact passes on this machine, at the first use only", None)
            width = exact_width(target)
            self._known.put(key, width)
        tuned = self._tuned(target)
        return min(width, tuned.exact_width) if tuned else width

    def exact_branches(self, target: LanguageModel) -> bool:
        """Tell whether passes with siblings are as exact as those without; comes after `exact_width`."""
        if not target.max_branches:
            return False
        if self._plan.strict:
            return self._checked is not None and self._checked.branches
        if not isinstance(target, LlamaModel):
            return exact_branches(target)
        key = self._key(Quantity.EXACT_BRANCHES, target)
        if (found := self._known.get(key)) is None:
            found = int(exact_branches(target))
            self._known.put(key, found)
        return bool(found)

    def follow_free_cores(self, target: LanguageModel) -> None:
        """Let a target use fewer threads while other programs hold cores, where that changes no bit of its logits.

        A number of threads that was given stays, and `--strict` keeps what it has checked.
        """
        fixed = self._plan.strict or self._plan.options.threads > 0
        if fixed or not isinstance(target, LlamaModel) or has_gpu(target.options) or free_cores() is None:
            return
        key = self._key(Quantity.EXACT_THREADS, target)
        if (found := self._known.get(key)) is None:
            found = int(exact_threads(target))
            self._known.put(key, found)
        if found:
            target.follow_free_cores(self._threads_on_battery(target))

    def _threads_on_battery(self, target: LlamaModel) -> int | None:
        """Return half of a target's threads where that costs little; None for all, and on a machine without battery."""
        if on_battery() is None or (threads := threads_of(target.options)[0]) < _FEWEST:
            return None
        key = self._key(Quantity.HALF_THREADS, target)
        if (cost := self._known.get(key)) is None:
            cost = round(1000 * half_threads_cost(target, self._clock))
            self._known.put(key, cost)
        return half_of(threads) if cost < 1000 * GENTLE else None

    def target_curve(self, target: LanguageModel, widths: Sequence[int]) -> VerifyCurve:
        """Return the cost of a target's passes, for these widths as far as it takes them."""
        seconds = self.curve(target, widths)
        return VerifyCurve(seconds, disturbed=self._was_disturbed(target, None))

    def draft_curve(self, model: LanguageModel) -> VerifyCurve:
        """Return the cost of a draft model's passes: narrow ones with a row for each token, and wide ones that read.

        A head needs one row, also of the narrow ones: it reads accepted tokens with its first step. Of a head that
        drafts blocks: see `block_table`.
        """
        if isinstance(model, BlockModel):
            reading = self.curve(model, HEAD_WIDTHS, rows=1)
            return VerifyCurve(block_table(reading, self.curve(WholeBlocks(model), BLOCK_WIDTHS)))
        if isinstance(model, HeadModel):
            return VerifyCurve(self.curve(model, HEAD_WIDTHS, rows=1), disturbed=self._was_disturbed(model, 1))
        seconds = self.curve(model, READ_WIDTHS, rows=1) | self.curve(model, DRAFT_WIDTHS)
        return VerifyCurve(seconds, disturbed=self._was_disturbed(model, None))

    def curve(self, model: LanguageModel, widths: Sequence[int], rows: int | None = None) -> dict[int, float]:
        """Return the seconds of passes by width, for these widths as far as the model takes them.

        `rows` of logits are computed in each pass; None: one for each token. A curve that other programs disturbed is
        measured again once they are quiet.
        """
        key, others = self._curve_key(model, rows), self._others()
        stored = self._known.get_table(key) or {}
        if _DISTURBED in stored and others < _BUSY and self._is_old(key):
            stored = {}
        known: dict[int, Any] = {int(width): seconds for width, seconds in stored.items() if width.isdecimal()}
        if rows is None and isinstance(model, LlamaModel) and (tuned := self._tuned(model)):
            known |= tuned.verify
        most = model.batch_size if rows else min(model.max_rows, model.batch_size)
        if missing := [width for width in widths if width not in known and width <= most]:
            first = f"about {_SECONDS:.0f} s, at the first use only"
            self._on_progress(f"{model.name}: measuring passes on this machine, {first}", None)
            # Width 1 comes along, so that all were measured in one minute.
            known |= measure_steady(model, self._clock, sorted({1, *missing}), _SECONDS, rows)
            self._keep(key, known, disturbed=self._others() >= _BUSY or _DISTURBED in stored)
        return known

    def doubt(self, curves: Sequence[tuple[LanguageModel, VerifyCurve]]) -> None:
        """Mark the stored curves of models whose passes since were faster than those say."""
        keys = [self._curve_key(model, rows) for model, curve in curves if curve.disturbed for rows in (None, 1)]
        for key in filter(None, keys):
            if (stored := self._known.get_table(key)) and _DISTURBED not in stored:
                self._known.put(key, {**stored, _DISTURBED: True})

    def _was_disturbed(self, model: LanguageModel, rows: int | None) -> bool:
        key = self._curve_key(model, rows)
        return _DISTURBED in (self._known.get_table(key) or {})

    def _is_old(self, key: str) -> bool:
        """Tell whether this process measured a disturbed curve long ago, or never: a server loads a model often."""
        return key not in _last_measured or self._clock() - _last_measured[key] >= _GOOD_SECONDS

    def _keep(self, key: str, seconds: dict[int, float], *, disturbed: bool) -> None:
        """Keep a curve, with a mark where it was disturbed or is implausible for an idle machine."""
        if not key:
            return
        shown: dict[str, Json] = {str(width): taken for width, taken in seconds.items()}
        if disturbed or not is_steady(seconds):
            shown[_DISTURBED] = True
            _last_measured[key] = self._clock()
        self._known.put(key, shown)

    def _curve_key(self, model: LanguageModel, rows: int | None) -> str:
        """Return the key of a curve; "" for a model that is measured at each load."""
        head = model.head if isinstance(model, WholeBlocks) else model
        if isinstance(head, HeadModel):
            run = replace(self._run(head.target), model=identity(head.head.path))
            return MeasurementKey(Quantity.HEAD, run, "" if head is model else f"{model.max_rows}").text
        if not isinstance(model, LlamaModel):
            return ""
        return self._key(Quantity.CURVE, model) if rows is None else self._key(Quantity.READING, model, str(rows))

    def _key(self, quantity: Quantity, model: LlamaModel, scope: str = "") -> str:
        return MeasurementKey(quantity, self._run(model), scope).text

    def _run(self, model: LlamaModel) -> ModelRun:
        """Return how a model runs, with the values that "auto" and 0 stand for now.

        Another version chooses another cache type, and fewer cores give fewer threads: both change sums and seconds.
        """
        (keys, values), (threads, batch_threads) = model.cache_types, threads_of(model.options)
        options = replace(
            model.options, cache_type_k=keys, cache_type_v=values, threads=threads, batch_threads=batch_threads
        )
        if self._plan.fit_context:
            # A context that fits is another one at each start.
            options = replace(options, context_size=0)
        return ModelRun(identity(model.path), settings_text(options), physical_cores())

    def _tuned(self, model: LlamaModel) -> Tuned | None:
        """Return what `localspec tune` measured on a target as it runs now; None for other settings."""
        plan = self._plan
        tuned = load_tuned(plan.memory, model.path, plan.options, allow_rounding=plan.allow_rounding)
        # No padded pass is measured by tuning.
        return tuned if tuned and model.options.pad_rows == 1 and measured_for(model.options, tuned) else None
