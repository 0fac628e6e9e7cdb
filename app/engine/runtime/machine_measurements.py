"""Measurements of loaded models on this machine, each made at first use and kept: costs of passes, exact widths."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.engine.costs.exact_settings import check_now
from app.engine.costs.measurement_key import MeasurementKey, ModelRun, Quantity, settings_text
from app.engine.costs.pass_cost import DRAFT_WIDTHS, HEAD_WIDTHS, READ_WIDTHS, VerifyCurve, is_steady, measure_steady
from app.engine.costs.tuned import Tuned, load_tuned, measured_for
from app.engine.decoding.round import Clock
from app.engine.runtime.load import LoadPlan, Progress
from models.base import LanguageModel
from models.heads.head_model import HeadModel
from models.llama.cache_types import summed_in_parts
from models.llama.exact_width import WIDEST, exact_branches, exact_width
from models.llama.load import threads_of
from models.llama.model import LlamaModel
from models.llama.probe import identity
from models.llama.strict import Checked
from models.system.machine import physical_cores
from models.system.remembered import Remembered

_SECONDS = 1.5
"""Seconds for the curve of one model: it is measured while a user waits for the first answer."""
_BUSY_SECONDS = 600.0
"""Seconds for which a curve that was measured on a busy machine is good enough for later loads of this process."""
_of_busy_machine: dict[str, tuple[float, dict[int, float]]] = {}
"""Such curves with their times, by their keys. They are not kept on disk: a quiet machine measures better ones."""


class MachineMeasurements:
    """Measures loaded models, whose caches are empty then; what the file of measurements has is not measured again.

    Methods return values without notes: a measurement that says something to the user is judged by its caller.
    """

    def __init__(self, plan: LoadPlan, clock: Clock, on_progress: Progress, checked: Checked | None = None) -> None:
        """Take the plan that models were loaded by, and for `--strict` what was checked at the load of the target."""
        self._plan = plan
        self._clock = clock
        self._on_progress = on_progress
        self._known = Remembered(plan.memory)
        self._checked = checked

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

    def draft_curve(self, model: LanguageModel) -> VerifyCurve:
        """Return the cost of a draft model's passes: narrow ones with a row for each token, and wide ones that read.

        A head needs one row, also of the narrow ones: it reads accepted tokens with its first step.
        """
        if isinstance(model, HeadModel):
            return VerifyCurve(self.curve(model, HEAD_WIDTHS, rows=1))
        return VerifyCurve(self.curve(model, READ_WIDTHS, rows=1) | self.curve(model, DRAFT_WIDTHS))

    def curve(self, model: LanguageModel, widths: Sequence[int], rows: int | None = None) -> dict[int, float]:
        """Return the seconds of passes by width, for these widths as far as the model takes them.

        `rows` of logits are computed in each pass; None: one for each token.
        """
        key = self._curve_key(model, rows)
        known: dict[int, Any] = {int(width): seconds for width, seconds in (self._known.get_table(key) or {}).items()}
        known = self._lately(key) | known
        if rows is None and isinstance(model, LlamaModel) and (tuned := self._tuned(model)):
            known |= tuned.verify
        most = model.batch_size if rows else min(model.max_rows, model.batch_size)
        if missing := [width for width in widths if width not in known and width <= most]:
            first = f"about {_SECONDS:.0f} s, at the first use only"
            self._on_progress(f"{model.name}: measuring passes on this machine, {first}", None)
            # Width 1 comes along, so that all were measured in one minute.
            known |= measure_steady(model, self._clock, sorted({1, *missing}), _SECONDS, rows)
            if key and is_steady(known):
                self._known.put(key, {str(width): seconds for width, seconds in known.items()})
            elif key:
                # Each swap of a server would else measure anew, for as long as its clients keep the machine busy.
                _of_busy_machine[key] = self._clock(), known
        return known

    def _lately(self, key: str) -> dict[int, float]:
        """Return what was measured on a busy machine a short time ago; nothing else."""
        then, seconds = _of_busy_machine.get(key, (0.0, {}))
        return dict(seconds) if seconds and self._clock() - then < _BUSY_SECONDS else {}

    def _curve_key(self, model: LanguageModel, rows: int | None) -> str:
        """Return the key of a curve; "" for a model that is measured at each load."""
        if isinstance(model, HeadModel):
            run = self._run(model.target)
            return MeasurementKey(Quantity.HEAD, replace(run, model=identity(model.head.path))).text
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
