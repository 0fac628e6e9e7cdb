"""From names to a loaded target and its drafter. What was asked for by name works or is refused; "auto" never fails."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from drafters.base import Drafter, NullDrafter
from drafters.draft_model import DraftModel
from drafters.prompt_lookup import PromptLookup
from drafters.registry import DrafterSpec
from models.abort import AbortFlag
from models.base import LanguageModel
from models.catalog import find_model
from models.errors import PairError
from models.exact_width import exact_width
from models.gguf import check_file
from models.llama import LlamaModel
from models.llama_load import LlamaOptions
from models.probe import choose_extra_buffers, identity
from models.remembered import Remembered
from models.toy import ToyModel

TOY = "toy"
"""Name of the model that needs no file, for a first look and for tests."""
_SLOW_PATH = (
    "This build of llama.cpp crashes on this processor's fast path (a known fault of AMX under GCC 12), so the slow "
    "one is used. To mend it: uv sync --reinstall-package llama-cpp-python"
)
Progress = Callable[[str, float], None]
"""Receives the name of what is loading, and the share of it that was read."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What to load, and how."""

    model: str
    """Name or path of the target."""
    drafter: DrafterSpec
    options: LlamaOptions
    memory: Path
    """File that remembers what was found out about models on this machine."""


class Loader:
    """Loads models on the engine's thread; collects what the user should know about it."""

    def __init__(self, plan: LoadPlan, abort: AbortFlag, on_progress: Progress) -> None:
        self.plan = plan
        self.notes: list[str] = []
        self._abort = abort
        self._on_progress = on_progress

    def target(self) -> LanguageModel:
        """Load the target; raises LocalspecError."""
        return self._load(self.plan.model, self.plan.options)

    def exact_width(self, target: LanguageModel) -> int:
        """Return the widest pass that this machine computes as it would one token at a time, measured at first use."""
        if not isinstance(target, LlamaModel):
            return exact_width(target)
        known, key = Remembered(self.plan.memory), f"exact width {target.options} {identity(target.path)}"
        if (width := known.get(key)) is None:
            self._on_progress(f"{target.name}: measuring", 1.0)
            width = exact_width(target)
            known.put(key, width)
        return width

    def drafter(self, spec: DrafterSpec, target: LanguageModel) -> Drafter:
        """Make the drafter asked for; raises PairError or ModelFileError for one that can't work, except for auto."""
        if spec.kind == "off":
            return NullDrafter()
        if target.rewind_support.limit == 0:
            return self._without_rewind(spec, target)
        if spec.kind == "model":
            return self._draft_model(spec.model, target)
        return PromptLookup(target.vocab.is_end)

    def _without_rewind(self, spec: DrafterSpec, target: LanguageModel) -> Drafter:
        reason = f"{target.name} can't take back a wrong guess ({target.rewind_support.reason})"
        if spec.kind != "auto":
            raise PairError(f"--draft {spec} can't be used: {reason}.", hint="Use --draft off with this model.")
        self.notes.append(f"No drafting: {reason}.")
        return NullDrafter()

    def _draft_model(self, name: str, target: LanguageModel) -> Drafter:
        # One row a pass is all a draft model is asked for, and its text is never longer than the target's.
        options = replace(self.plan.options, context_size=target.context_size, max_rows=1)
        model = self._load(name, options)
        try:
            return DraftModel(model, target.vocab)
        except BaseException:
            model.close()
            raise

    def _load(self, name: str, options: LlamaOptions) -> LanguageModel:
        if name == TOY:
            return ToyModel(context_size=options.context_size or 512, abort=self._abort)
        path = find_model(name)
        check_file(path)
        self._on_progress(path.stem, 0.0)
        if options.extra_buffers and not choose_extra_buffers(path, self.plan.memory):
            options = replace(options, extra_buffers=False)
            self.notes.append(_SLOW_PATH)
        report = partial(self._on_progress, path.stem)
        return LlamaModel(path, options, abort=self._abort, on_progress=report)
