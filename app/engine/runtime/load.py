"""From names to a loaded target and who guesses for it.

What was asked for by name works or is refused; "auto" never fails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from app.engine.control.acceptance_store import stored_acceptance
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings
from app.engine.control.draft_model_cost import ModelCost
from app.engine.conversation.drafting import Drafting
from app.engine.costs.draft_copy import DraftCopies, open_copy
from app.engine.costs.exact_settings import Open, Strict, check_now
from app.engine.costs.known_costs import CURVE_KEY, EXACT_KEY
from app.engine.costs.pass_cost import DRAFT_WIDTHS, QUICK_WIDTHS, READ_WIDTHS, VerifyCurve, is_steady, measure_steady
from app.engine.costs.tuned import Tuned, apply_tuned, load_tuned, load_tuned_draft, measured_for
from app.engine.costs.usable_width import usable_width
from app.engine.decoding.round import Clock
from drafters.base import NullDrafter
from drafters.draft_model import DraftModel
from drafters.history.drafter import Recall
from drafters.history.store import Place, TextMemory
from drafters.hybrid import Hybrid
from drafters.registry import DrafterSpec, free_drafters
from drafters.suffix import SuffixDrafter
from models.abort import AbortFlag
from models.base import LanguageModel
from models.errors import PairError
from models.gguf.file import check_file
from models.kernels.takeover import compile_kernels
from models.library.catalog import find_model
from models.llama.cache_types import summed_in_parts
from models.llama.devices import gpus
from models.llama.exact_width import WIDEST, exact_branches, exact_width
from models.llama.load import LlamaOptions, has_gpu, need_of, threads_of
from models.llama.memory import beyond_training, fit_context, room_for
from models.llama.model import LlamaModel
from models.llama.probe import choose_extra_buffers, identity
from models.llama.screen_check import settle_screen
from models.llama.strict import Checked
from models.system.machine import available_memory, physical_cores
from models.system.remembered import Remembered
from models.text.fim import text_order
from models.toy import ToyModel

TOY, TOY_FIM = "toy", "toy-fim"
"""Names of the model that needs no file, for a first look and for tests; the second one fills in the middle too."""
_SLOW_PATH = (
    "This build of llama.cpp crashes on this processor's fast path (a known bug of AMX under GCC 12), so the slow "
    "one is used. To fix it: uv sync --reinstall-package llama-cpp-python"
)
_NEVER_EXACT = (
    "With these settings this device rounds every pass over several tokens differently from one token at a time, so "
    "with drafting a near-tie between two tokens can resolve differently. For text that is equal to the last bit use "
    "--strict or --draft off"
)
_MEASURING_SECONDS = 1.5
Progress = Callable[[str, float | None], None]
"""Receives the name of what is loading, and the share of it that was read; None: what is done instead, in words."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What to load, and how."""

    model: str
    """Name or path of the target."""
    drafter: DrafterSpec
    options: LlamaOptions
    memory: Path
    """File that remembers what was found out about models on this machine."""
    allow_rounding: bool = False
    """Whether drafts may be longer than this machine is exact for: settings chosen under that are then used."""
    strict: bool = False
    """Whether only passes may be used that were checked, at this load, to be exact to the last bit."""
    texts: Place | None = None
    """Where to keep what is said, to copy from in later runs; None: nowhere."""
    fit_context: bool = False
    """Whether the context is as long as what is free allows."""
    slots: int = 1
    """Answers that can be given at once, each with a cache of its own."""
    copies: Path | None = None
    """Folder of draft models in fewer bits; None: files are used as they are."""


class Loader:
    """Loads models on the engine's thread; collects what the user should know about it."""

    def __init__(self, plan: LoadPlan, abort: AbortFlag, clock: Clock, on_progress: Progress) -> None:
        self.plan = plan
        self.notes: list[str] = []
        self._abort = abort
        self._clock = clock
        self._on_progress = on_progress
        self._known = Remembered(plan.memory)
        self._checked: Checked | None = None
        self._copies = DraftCopies(plan.copies, abort, on_progress, self.notes.append) if plan.copies else None

    def target(self) -> LanguageModel:
        """Load the target; raises LocalspecError."""
        open_target, options = self._toy, self.plan.options
        if self.plan.model not in (TOY, TOY_FIM):
            path = self._found(self.plan.model)
            tuned = load_tuned(self.plan.memory, path, options, allow_rounding=self.plan.allow_rounding)
            open_target, options = partial(self._open, path), self._fitted(path, apply_tuned(options, tuned))
        target = open_target(options)
        if isinstance(target, LlamaModel) and (note := beyond_training(self.plan.options.context_size, target.trained)):
            self.notes.append(note)
        return self._settled(target, open_target) if self.plan.strict else target

    def _settled(self, target: LanguageModel, open_target: Open) -> LanguageModel:
        """Return the target under settings that were seen to be exact; raises LocalspecError where there are none."""
        settled = Strict(open_target, self._clock, lambda text: self._on_progress(text, None)).settle(target)
        self._checked = settled.checked
        self.notes.append(settled.note)
        return settled.model

    def drafting(self, spec: DrafterSpec, target: LanguageModel) -> Drafting:
        """Make who was asked for; raises PairError or ModelFileError for one that can't work, except for auto.

        The first time for a model passes are timed and compared: the cache is then empty, and a conversation is read
        again when it goes on.
        """
        if spec.kind == "off" or (target.rewind_support.limit == 0 and self._refused(spec, target)):
            return Drafting(NullDrafter())
        model = self.draft_model(spec.model, target) if spec.model else None
        try:
            exact = self.exact_width(target)
            widest = usable_width(exact, WIDEST, allow_rounding=self.plan.allow_rounding)
            curve = VerifyCurve(self.curve(target, [width for width in QUICK_WIDTHS if width <= widest]))
            cost = ModelCost(model.name, self.draft_curve(model.model), self._is_tuned(spec.model)) if model else None
            branches = model is not None and self.exact_branches(target)
            adaptive = AdaptiveController(curve, AnswerSettings(target.max_rows - 1), cost)
            drafting = self.together(spec, target, model, adaptive, exact - 1)
            drafting.introduce(target)
        except BaseException:
            if model:
                model.close()
            raise
        # The toy computes every token by itself: 1 is then a context with no room for more.
        if exact == 1 and isinstance(target, LlamaModel):
            floats = summed_in_parts(target.cache_types) and not has_gpu(target.options)
            self.notes.append(_NEVER_EXACT + (", or leave out -ctk and -ctv." if floats else "."))
        return replace(drafting, exact_branches=branches)

    def together(
        self,
        spec: DrafterSpec,
        target: LanguageModel,
        model: DraftModel | None,
        adaptive: AdaptiveController,
        exact_draft: int,
    ) -> Drafting:
        """Return who guesses for a target: who costs nothing, and a draft model if there is one."""
        free, texts, order = free_drafters(spec, target.vocab.is_end), self.plan.texts, text_order(target.vocab)
        copies = any(isinstance(drafter, SuffixDrafter) for drafter in free)
        memory = TextMemory(texts, target.vocab, target.name) if texts is not None and copies else None
        recall = Recall(target.vocab.is_end) if memory is not None else None
        hybrid = Hybrid([*free, *([recall] if recall else [])], model, adaptive, order)
        record = stored_acceptance(self._known, target, model, adaptive.acceptance)
        return Drafting(hybrid, adaptive, exact_draft, memory, recall, model, record)

    def exact_width(self, target: LanguageModel) -> int:
        """Return the widest pass that this machine computes as it would one token at a time, measured at first use."""
        if self.plan.strict:
            # Another drafter comes with another loader: the target is then looked at again, as it runs.
            self._checked = self._checked or check_now(target, self._clock)
            return self._checked.width
        if not isinstance(target, LlamaModel):
            return exact_width(target)
        # "deep": what was measured of such caches before was measured at the start of a text alone.
        looked = f"{WIDEST} deep" if summed_in_parts(target.cache_types) else f"{WIDEST}"
        key = f"{EXACT_KEY}{looked} {self._lasting(target)}"
        if (width := self._known.get(key)) is None:
            self._on_progress(f"{target.name}: measuring", None)
            width = exact_width(target)
            self._known.put(key, width)
        tuned = self._tuned(target)
        return min(width, tuned.exact_width) if tuned else width

    def exact_branches(self, target: LanguageModel) -> bool:
        """Tell whether passes with second guesses are as exact as those without; after `exact_width`, and like it."""
        if not target.max_branches:
            return False
        if self.plan.strict:
            return self._checked is not None and self._checked.branches
        key = f"exact branches {self._lasting(target)}" if isinstance(target, LlamaModel) else ""
        if (found := self._known.get(key)) is None:
            found = int(exact_branches(target))
            if key:
                self._known.put(key, found)
        return bool(found)

    def draft_curve(self, model: LanguageModel) -> VerifyCurve:
        """Return the cost of a draft model's passes: over few tokens, a row for each, and over many that it reads."""
        return VerifyCurve(self.curve(model, READ_WIDTHS, rows=1) | self.curve(model, DRAFT_WIDTHS))

    def curve(self, model: LanguageModel, widths: Sequence[int], rows: int | None = None) -> dict[int, float]:
        """Return the seconds of passes of these widths, as far as the model takes them, measured at first use.

        `rows` are wanted of each; None: as many as there are tokens.
        """
        kind = CURVE_KEY if rows is None else f"reading {rows} "
        key = f"{kind}{self._lasting(model)}" if isinstance(model, LlamaModel) else ""
        known: dict[int, Any] = {int(width): seconds for width, seconds in (self._known.get_table(key) or {}).items()}
        if rows is None and isinstance(model, LlamaModel) and (tuned := self._tuned(model)):
            known |= tuned.verify
        most = model.batch_size if rows else min(model.max_rows, model.batch_size)
        if missing := [width for width in widths if width not in known and width <= most]:
            self._on_progress(f"{model.name}: measuring", None)
            # Width 1 comes along, so that all were measured in the same minute.
            known |= measure_steady(model, self._clock, sorted({1, *missing}), _MEASURING_SECONDS, rows)
            if key and is_steady(known):
                self._known.put(key, {str(width): seconds for width, seconds in known.items()})
        return known

    def _lasting(self, model: LlamaModel) -> str:
        """Return what to remember figures by, the end of a key: how a model runs, on so many cores, and which it is.

        What "auto" and 0 stand for is in it: another type in the next version, another number of threads where the
        system gives the process fewer cores, and with either other kernels, other sums and other seconds.
        """
        (keys, values), (threads, batch_threads) = model.cache_types, threads_of(model.options)
        options = replace(
            model.options, cache_type_k=keys, cache_type_v=values, threads=threads, batch_threads=batch_threads
        )
        if self.plan.fit_context:
            # A context that fits is another one at each start.
            options = replace(options, context_size=0)
        return f"{options} {physical_cores()} cores {identity(model.path)}"

    def _tuned(self, model: LlamaModel) -> Tuned | None:
        """Return what was measured on a loaded target as it runs now; None for other settings."""
        tuned = load_tuned(self.plan.memory, model.path, self.plan.options, allow_rounding=self.plan.allow_rounding)
        # Tuning knows nothing of padding.
        return tuned if tuned and model.options.pad_rows == 1 and measured_for(model.options, tuned) else None

    def _refused(self, spec: DrafterSpec, target: LanguageModel) -> bool:
        """Say why a target that can't go back is not guessed for; raises PairError where that was asked for."""
        reason = f"{target.name} can't take back rejected tokens ({target.rewind_support.reason})"
        if spec.kind != "auto" or spec.model:
            raise PairError(f"--draft {spec} can't be used: {reason}.", hint="Use --draft off with this model.")
        self.notes.append(f"No drafting: {reason}.")
        return True

    def draft_model(self, name: str, target: LanguageModel) -> DraftModel:
        """Load a draft model for a target; raises ModelFileError, and PairError where it does not fit."""
        # Its text is never longer than the target's.
        model = self._load_draft(name, replace(self.plan.options, context_size=target.context_size, screens=True))
        try:
            settle_screen(model, self._known)
            return DraftModel(model, target.vocab)
        except BaseException:
            model.close()
            raise

    def _load_draft(self, name: str, options: LlamaOptions) -> LanguageModel:
        if name == TOY:
            return self._toy(options)
        file, options = self._draft_file(name, options)
        return open_copy(file, self._found(name), lambda each: self._open(each, options))

    def _draft_file(self, name: str, options: LlamaOptions) -> tuple[Path, LlamaOptions]:
        """Return the file of a draft model, and how it runs best."""
        path = self._found(name)
        tuned = load_tuned_draft(self.plan.memory, path, self.plan.options)
        file = tuned.copy if tuned and tuned.copy else path
        # A run of `tune` that had no time for copies is no reason to go without one.
        if file == path and not (tuned and tuned.beats_copies) and self._copies and not has_gpu(options):
            file = self._copies.quickest(path)
        return file, apply_tuned(options, tuned)

    def _is_tuned(self, draft: str) -> bool:
        return draft == TOY or load_tuned_draft(self.plan.memory, self._found(draft), self.plan.options) is not None

    def _fitted(self, path: Path, options: LlamaOptions) -> LlamaOptions:
        """Return the options with a context that fits, if so asked: the draft model has one as long, and counts too."""
        if not self.plan.fit_context:
            return options
        needs, draft = [need_of(path, options, self.plan.slots)], self.plan.drafter.model
        if draft and draft != TOY:
            needs.append(need_of(*self._draft_file(draft, self.plan.options), self.plan.slots))
        fit = fit_context(needs, room_for(needs, available_memory(), gpus()))
        self.notes.append(fit.note)
        return replace(options, context_size=fit.context)

    def _toy(self, options: LlamaOptions) -> LanguageModel:
        # A draft model has the markers that its target has.
        return ToyModel(context_size=options.context_size or 512, markers=self.plan.model == TOY_FIM, abort=self._abort)

    def _found(self, name: str) -> Path:
        check_file(path := find_model(name))
        # What is asked about the file next starts the engine.
        compile_kernels(self._abort, lambda: self._on_progress("compiling kernels for this processor, once", None))
        return path

    def _open(self, path: Path, options: LlamaOptions) -> LanguageModel:
        self._on_progress(path.stem, 0.0)
        if options.extra_buffers is not False and not choose_extra_buffers(path, self.plan.memory, abort=self._abort):
            options = replace(options, extra_buffers=False)
            self.notes.append(_SLOW_PATH)
        return LlamaModel(path, options, abort=self._abort, on_progress=partial(self._on_progress, path.stem))
