"""From the names of models to loaded models: the plan of a load, and the opener that follows it."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from app.engine.costs.draft_copy import DraftCopies, open_copy
from app.engine.costs.exact_settings import Open, Strict
from app.engine.costs.standing_model import TEXT_CONTEXT, reason_against
from app.engine.costs.tuned import apply_tuned, load_tuned, load_tuned_draft
from app.engine.decoding.round import Clock
from app.engine.runtime.heads import open_head, wants_own_head
from drafters.base import ModelDrafter
from drafters.draft_model import DraftModel
from drafters.history.store import Place
from drafters.online.draft_model import CorrectedDraftModel
from drafters.online.store import CorrectionStore
from drafters.registry import AUTO, DrafterSpec
from drafters.text.draft_model import TextDraftModel
from models.abort import AbortFlag
from models.base import LanguageModel
from models.errors import LocalspecError
from models.gguf.file import check_file
from models.gguf.header import read_model
from models.gguf.token_map import token_map_of
from models.kernels.takeover import compile_kernels
from models.library.catalog import find_model, is_same_model
from models.library.head_files import head_need, is_head_file
from models.llama.devices import gpus
from models.llama.load import LlamaOptions, has_gpu, need_of
from models.llama.memory import Need, beyond_training, fit_context, room_for
from models.llama.model import LlamaModel
from models.llama.probe import choose_extra_buffers
from models.llama.remote.remote_model import RemoteModel
from models.llama.screen_check import settle_screen
from models.llama.strict import Checked
from models.llama.weights.placed import place_weights
from models.llama.weights.placement import USUAL
from models.pair import check_pair
from models.states.folder import StateFolder
from models.system.locked import lock_limit, locked_bytes
from models.system.machine import available_memory
from models.system.remembered import Remembered
from models.token_map import TokenMap
from models.toy import ToyModel

TOY, TOY_FIM = "toy", "toy-fim"
"""Names of models that need no file, for a first look and for tests; the second one also fills in the middle."""
_SLOW_PATH = (
    "This build of llama.cpp crashes on this processor's fast path (a known bug of AMX under GCC 12), so the slow "
    "one is used. To fix it: uv sync --reinstall-package llama-cpp-python"
)
_AS_TEXT = (
    "{} has other tokens than the target ({}), so it drafts text, which is spelled in the target's tokens. "
    "A draft model with the target's tokens is accepted more often."
)
_log = logging.getLogger("localspec.engine")
Progress = Callable[[str, float | None], None]
"""Receives the name of a loading file and the share of it that was read, or with None a step of the load in words."""
Notes = tuple[str, ...]
"""Sentences for the user about a load, such as why something fell back."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What to load, and how."""

    model: str
    """Name or path of the target."""
    drafter: DrafterSpec
    options: LlamaOptions
    memory: Path
    """File of the measurements of models on this machine."""
    allow_rounding: bool = False
    """Whether drafts may be longer than exact passes are wide: settings tuned under that are then used."""
    strict: bool = False
    """Whether only passes may be used that were checked, at this load, to be exact to the last bit."""
    texts: Place | None = None
    """Where prompts and answers are kept, to copy from in later runs; None: nowhere."""
    fit_context: bool = False
    """Whether the context is as long as free memory allows."""
    slots: int = 1
    """Answers that can run at once, each with a cache of its own."""
    copies: Path | None = None
    """Folder of draft models in fewer bits; None: files are used as they are."""
    states: StateFolder | None = None
    """Where the caches of saved conversations are kept; None: nowhere."""
    online: bool = False
    """Whether a draft model with the target's tokens is corrected by what verification has taught."""
    standing: str = ""
    """Draft model for any target where "auto" is asked for and names none, if that is expected to pay; "": none."""


def may_choose(spec: DrafterSpec, standing: str) -> bool:
    """Tell whether "auto" may choose between the draft model that was named and the standing model."""
    return spec.kind == AUTO and bool(spec.model and standing) and not is_same_model(spec.model, standing)


@dataclass(frozen=True, slots=True)
class OpenedTarget:
    """A loaded target, and for `--strict` what was seen of it."""

    model: LanguageModel
    checked: Checked | None = None
    """Passes that were checked to be exact at this load; None: not asked for."""


class ModelOpener:
    """Opens the models of a plan on the engine's thread; each method returns a value and notes for the user."""

    def __init__(self, plan: LoadPlan, abort: AbortFlag, clock: Clock, on_progress: Progress) -> None:
        self._plan = plan
        self._abort = abort
        self._clock = clock
        self._on_progress = on_progress
        self._known = Remembered(plan.memory)
        self._draft_options = plan.options.for_drafts

    def target(self) -> tuple[OpenedTarget, Notes]:
        """Load the target; raises LocalspecError."""
        plan, options, notes = self._plan, self._plan.options, list[str]()
        open_target: Open = self._toy
        if plan.model not in (TOY, TOY_FIM):
            path = self._found(plan.model)
            tuned = load_tuned(plan.memory, path, options, allow_rounding=plan.allow_rounding)
            options = self._fitted(path, self._placed(path, apply_tuned(options, tuned), notes), notes)
            # A head reads the rows of passes on this machine.
            heads = not options.placement.workers and wants_own_head(plan.drafter, path)
            options = replace(options, heads=heads)
            open_target = partial(self._open, path, notes)
        target = open_target(options)
        if isinstance(target, LlamaModel) and options.lock and not locked_bytes():
            notes.append(_unlocked())
        if isinstance(target, LlamaModel) and (note := beyond_training(plan.options.context_size, target.trained)):
            notes.append(note)
        if not plan.strict:
            return OpenedTarget(target), tuple(notes)
        settled = Strict(open_target, self._clock, lambda text: self._on_progress(text, None)).settle(target)
        return OpenedTarget(settled.model, settled.checked), (*notes, settled.note)

    def draft_model(self, name: str, target: LanguageModel) -> tuple[ModelDrafter, Notes]:
        """Load a draft model or a draft head for a target; raises ModelFileError, and PairError where it does not fit.

        A draft model with other tokens than the target drafts text.
        """
        if name != TOY and is_head_file(path := self._found(name)):
            self._on_progress(path.stem, 0.0)
            return open_head(path, target), ()
        plan, notes = self._plan, list[str]()
        # Its text is never longer than the target's.
        options = replace(self._draft_options, context_size=target.context_size, screens=True)
        model = self._open_draft(name, options, notes)
        try:
            settle_screen(model, self._known)
            # A target in a process of its own counts as another program.
            if isinstance(model, LlamaModel) and not plan.options.threads and not isinstance(target, RemoteModel):
                model.follow_free_cores()
            token_map = token_map_of(read_model(model.path)) if isinstance(model, LlamaModel) else None
            reasons = (token_map.reasons if token_map else check_pair)(target.vocab, model.vocab)
            if not reasons:
                return self._same_tokens(model, target, token_map), tuple(notes)
            if isinstance(model, LlamaModel) and model.context_size > TEXT_CONTEXT:
                model.reopen(replace(model.options, context_size=TEXT_CONTEXT))
            return TextDraftModel(model, target.vocab), (*notes, _AS_TEXT.format(model.name, reasons[0]))
        except BaseException:
            model.close()
            raise

    def _same_tokens(self, model: LanguageModel, target: LanguageModel, token_map: TokenMap | None) -> DraftModel:
        """Return the drafter of a draft model with the target's tokens, corrected where that was asked for."""
        if not self._plan.online:
            return DraftModel(model, target.vocab, token_map)
        store = CorrectionStore(self._plan.texts, target.vocab, (target.name, model.name))
        return CorrectedDraftModel(model, target.vocab, store.corrections, store.keep, token_map)

    def standing_model(self, target: LanguageModel, seconds: Mapping[int, float]) -> ModelDrafter | None:
        """Load the plan's draft model for any target; None where there is none, or it is not expected to pay.

        `seconds` is the target's T(w) by width. No error of the draft model is an error of the load.
        """
        plan, name = self._plan, self._plan.standing
        if not name or not isinstance(target, LlamaModel | RemoteModel) or is_same_model(name, str(target.path)):
            return None
        if not (target.chat_template or target.named_templates):
            _log.info("no standing draft model: %s answers no messages", target.name)
            return None
        options = replace(self._draft_options, context_size=min(target.context_size, TEXT_CONTEXT))
        try:
            if reason := reason_against(target.path, seconds, find_model(name), plan.memory, options, plan.slots):
                _log.info("no standing draft model: %s", reason)
                return None
            return self.draft_model(name, target)[0]
        except LocalspecError as error:
            _log.warning("no standing draft model: %s %s", error.title, error.cause)
            return None

    def is_tuned(self, draft: str) -> bool:
        """Tell whether `localspec tune` has measured a draft model with these options."""
        plan = self._plan
        return draft == TOY or load_tuned_draft(plan.memory, self._found(draft), self._draft_options) is not None

    def _open_draft(self, name: str, options: LlamaOptions, notes: list[str]) -> LanguageModel:
        if name == TOY:
            return self._toy(options)
        file, options = self._draft_file(name, options, notes)
        return open_copy(file, self._found(name), lambda each: self._open(each, notes, options))

    def _draft_file(self, name: str, options: LlamaOptions, notes: list[str]) -> tuple[Path, LlamaOptions]:
        """Return the file of a draft model, which may be a copy in fewer bits, and the options for it."""
        path, plan = self._found(name), self._plan
        tuned = load_tuned_draft(plan.memory, path, self._draft_options)
        file = tuned.copy if tuned and tuned.copy else path
        # A run of `tune` that had no time for copies is no reason to go without one.
        if file == path and not (tuned and tuned.beats_copies) and plan.copies and not has_gpu(options):
            file = DraftCopies(plan.copies, self._abort, self._on_progress, notes.append).quickest(path)
        return file, apply_tuned(options, tuned)

    def _placed(self, path: Path, options: LlamaOptions, notes: list[str]) -> LlamaOptions:
        """Return the options with layers and experts that fit on the GPU, for `-ngl auto`, and notes on all placing."""
        if options.placement == USUAL:
            return options
        others = self._other_needs(path) if options.placement.fits else ()
        placed = place_weights(path, options, self._plan.slots, others)
        notes += placed.notes
        return placed.options

    def _other_needs(self, target: Path) -> tuple[Need, ...]:
        """Return the memory of what is loaded beside the target: a draft model, and the one for any target."""
        draft = self._plan.drafter.model
        named = (self._draft_need(draft, []),) if draft and draft != TOY else ()
        return (*named, *self._standing_need(target))

    def _standing_need(self, target: Path) -> tuple[Need, ...]:
        """Return the memory of the draft model for any target, where it may be loaded."""
        plan, spec = self._plan, self._plan.drafter
        wanted = may_choose(spec, plan.standing) if spec.model else str(spec) == AUTO
        if not plan.standing or not wanted or is_same_model(plan.standing, str(target)):
            return ()
        with suppress(LocalspecError):
            return (need_of(find_model(plan.standing), self._draft_options, plan.slots),)
        return ()

    def _fitted(self, path: Path, options: LlamaOptions, notes: list[str]) -> LlamaOptions:
        """Return the options with a context that fits, for `--ctx-size auto`: the draft model needs one as long."""
        plan = self._plan
        if not plan.fit_context:
            return options
        needs, draft = [need_of(path, options, plan.slots)], plan.drafter.model
        if draft and draft != TOY:
            needs.append(self._draft_need(draft, notes))
        fit = fit_context(needs, room_for(needs, available_memory() - self._standing_bytes(path), gpus()))
        notes.append(fit.note)
        return replace(options, context_size=fit.context)

    def _draft_need(self, name: str, notes: list[str]) -> Need:
        """Return the memory that a draft model or head takes with its caches."""
        if is_head_file(path := self._found(name)):
            return head_need(path, self._plan.slots)
        return need_of(*self._draft_file(name, self._draft_options, notes), self._plan.slots)

    def _standing_bytes(self, target: Path) -> int:
        """Return the memory that the plan's draft model for any target may take."""
        return sum(need.plan(TEXT_CONTEXT).total for need in self._standing_need(target))

    def _toy(self, options: LlamaOptions) -> LanguageModel:
        # A draft model has the markers that its target has.
        markers = self._plan.model == TOY_FIM
        return ToyModel(context_size=options.context_size or 512, markers=markers, abort=self._abort)

    def _found(self, name: str) -> Path:
        check_file(path := find_model(name))
        # The next question about the file starts the engine.
        compile_kernels(
            self._abort, lambda: self._on_progress("compiling kernels for this processor, about 30 s, once", None)
        )
        return path

    def _open(self, path: Path, notes: list[str], options: LlamaOptions) -> LanguageModel:
        self._on_progress(path.stem, 0.0)
        if options.placement.workers:
            return RemoteModel(path, options, abort=self._abort, on_progress=partial(self._on_progress, path.stem))
        if options.extra_buffers is not False and not choose_extra_buffers(path, self._plan.memory, abort=self._abort):
            options = replace(options, extra_buffers=False)
            notes.append(_SLOW_PATH)
        return LlamaModel(path, options, abort=self._abort, on_progress=partial(self._on_progress, path.stem))


def _unlocked() -> str:
    """Return the note for weights that the system did not lock."""
    limit = lock_limit()
    why = (
        "" if limit is None else f" The system's limit is {limit / (1 << 20):,.0f} MiB; ulimit -l unlimited raises it."
    )
    return f"--mlock had no effect: the weights may be swapped out.{why}"
