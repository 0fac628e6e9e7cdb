"""Drafters of every method that a target can use, loaded together; for each of the others the reason against it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.bench.measuring.arm_names import FORGED_MODELS, HEAD_FILES, MODEL, TEXT
from app.engine.runtime.heads import head_beside, open_head, open_own_head
from app.engine.runtime.loader import Loader
from app.shell.paths import forged_folder
from drafters.base import ModelDrafter
from drafters.head import HeadDrafter
from drafters.registry import AUTO, HEAD
from models.base import LanguageModel
from models.errors import LocalspecError
from models.gguf.header import read_model
from models.gguf.heads import HeadKind, has_own_head
from models.library.catalog import STARTER, is_same_model
from models.library.forged import forged_models
from models.llama.model import LlamaModel
from models.llama.remote.remote_model import RemoteModel


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A method that can't be measured for this target."""

    method: str
    """Name of its arm."""
    reason: str
    """Why, in words, without a full stop."""


@dataclass(frozen=True, slots=True)
class Methods:
    """Loaded drafters of one target."""

    by_kind: Mapping[str, ModelDrafter]
    """The drafters of the arms "model", "mtp", "text" and `FILES`; those that can't be loaded are left out."""
    auto: tuple[ModelDrafter, ...]
    """Those that `run` would use without a flag, or with the same `--draft`; of several, one drafts at a time."""
    unavailable: tuple[Unavailable, ...]

    def close(self) -> None:
        """Free all of them."""
        for drafter in (*self.by_kind.values(), *self.auto):
            drafter.close()


def load_methods(
    loader: Loader, target: LanguageModel, kinds: frozenset[str], seconds: Callable[[], Mapping[int, float]]
) -> Methods:
    """Load a drafter for each of the kinds "model", "mtp" and "text", and of `FILES`, that are asked for.

    `seconds` measures the target's T(w) by width. Raises LocalspecError where a draft model that was named can't be
    loaded; every other failure is a reason.
    """
    reasons: dict[str, str] = {}
    auto = _named(loader, target, kinds, seconds)
    arms = zip((MODEL, TEXT), auto, strict=False)
    found = {kind: drafter for kind, drafter in arms if kind == MODEL or drafter.drafts_text}
    try:
        if kinds & {AUTO, HEAD}:
            _put(HEAD, _own_head(target, found.get(MODEL)), found, reasons)
        for kind in HEAD_FILES:
            if kind in kinds:
                _put_head(kind, target, found, reasons)
        if not found and (standing := loader.standing_model(target, seconds())) is not None:
            found[TEXT if standing.drafts_text else MODEL] = standing
        auto = auto or [*found.values()][:1]
        for kind in FORGED_MODELS:
            if kind in kinds:
                _put(kind, _forged_model(kind, loader, target), found, reasons)
        if TEXT in kinds and TEXT not in found:
            _put_starter(_starter(loader, target), found, reasons)
    except BaseException:
        for drafter in (*found.values(), *auto):
            drafter.close()
        raise
    if MODEL in kinds and MODEL not in found:
        reasons[MODEL] = "no draft model was named (--draft FILE; localspec models suggest finds one)"
    missing = {kind: reason for kind, reason in reasons.items() if kind not in found}
    return Methods(found, tuple(auto), tuple(Unavailable(kind, reason) for kind, reason in missing.items()))


def _named(
    loader: Loader, target: LanguageModel, kinds: frozenset[str], seconds: Callable[[], Mapping[int, float]]
) -> list[ModelDrafter]:
    """Load the draft model that was named, and for auto the one beside it; none where none was named."""
    name = loader.plan.drafter.model
    if name and AUTO in kinds:
        return loader.named_models(target, seconds())
    return [loader.draft_model(name, target)] if name else []


def _put(kind: str, outcome: ModelDrafter | str, found: dict[str, ModelDrafter], reasons: dict[str, str]) -> None:
    """Add a drafter, or the reason against it."""
    if isinstance(outcome, str):
        reasons[kind] = outcome
    else:
        found[kind] = outcome


def _put_head(kind: str, target: LanguageModel, found: dict[str, ModelDrafter], reasons: dict[str, str]) -> None:
    """Add the head of a kind in a file; one that was found as the target's own head is moved to the arm of its kind."""
    if HEAD in found and found[HEAD].name == kind:
        found[kind] = found.pop(HEAD)
        reasons[HEAD] = f"{target.name} has no drafting layer; its head in a file is the arm {kind}"
        return
    _put(kind, _head_in_file(kind, target, found.get(MODEL)), found, reasons)


def _head_in_file(kind: str, target: LanguageModel, named: ModelDrafter | None) -> ModelDrafter | str:
    """Return the drafter of a head in a file, or why there is none."""
    if named is not None and named.name == kind:
        return "--draft names it, so it is the arm model"
    path = head_beside(target.path, HeadKind(kind)) if isinstance(target, LlamaModel) else None
    if path is None:
        return f"{target.name} has no such head (localspec forge MODEL --method {kind} makes one)"
    try:
        return open_head(path, target)
    except LocalspecError as error:
        return error.title.rstrip(".")


def _forged_model(kind: str, loader: Loader, target: LanguageModel) -> ModelDrafter | str:
    """Return the draft model that a method of `forge` made for a target, or why there is none."""
    path = forged_models(forged_folder(), target.path).get(kind) if isinstance(target, LlamaModel) else None
    if path is None:
        return f"none was made for {target.name} (localspec forge MODEL --method {kind} makes one)"
    if is_same_model(loader.plan.drafter.model, str(path)):
        return "it is the arm model already: --draft names it, or it is used with no flag"
    try:
        return loader.draft_model(str(path), target)
    except LocalspecError as error:
        return error.title.rstrip(".")


def _put_starter(starter: ModelDrafter | str, found: dict[str, ModelDrafter], reasons: dict[str, str]) -> None:
    """Add the starter as the arm that its tokens make it."""
    if isinstance(starter, str) or starter.drafts_text:
        _put(TEXT, starter, found, reasons)
        return
    reasons[TEXT] = "the starter has the target's tokens, so it is a draft model like any other"
    if MODEL in found:
        starter.close()
    else:
        found[MODEL] = starter


def _own_head(target: LanguageModel, named: ModelDrafter | None) -> ModelDrafter | str:
    """Return the drafter of a target's own head or of one beside its file, or why there is none."""
    if isinstance(named, HeadDrafter):
        return "--draft names another head"
    if named is not None and isinstance(target, LlamaModel) and has_own_head(read_model(target.path)):
        return "beside --draft the drafting layer is not loaded; leave --draft out to measure it"
    try:
        head = open_own_head(target)
    except LocalspecError as error:
        return error.title.rstrip(".")
    return head or f"{target.name} has no draft head"


def _starter(loader: Loader, target: LanguageModel) -> ModelDrafter | str:
    """Return the starter as a drafter, whether or not that is expected to pay, or why it can't draft."""
    if not isinstance(target, LlamaModel | RemoteModel):
        return "the starter drafts for models in files"
    if is_same_model(STARTER, str(target.path)):
        return "the target is the starter itself"
    if not (target.chat_template or target.named_templates):
        return f"{target.name} has no chat template, and so answers no messages"
    if target.rewind_support.limit is not None:
        return f"{target.name} can take back only some rejected tokens ({target.rewind_support.reason})"
    try:
        return loader.draft_model(STARTER, target)
    except LocalspecError as error:
        return error.title.rstrip(".")
