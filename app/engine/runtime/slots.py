"""Slots for several answers at once: further caches over loaded weights, for the target and its draft model."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings
from app.engine.control.shared_control import SharedBatch
from app.engine.conversation.drafting import Drafting
from app.engine.conversation.slot import Slot
from app.engine.costs.pass_cost import QUICK_WIDTHS, VerifyCurve
from app.engine.costs.usable_width import usable_width
from app.engine.runtime.loader import Loader
from drafters.alternatives import AlternativeModels
from drafters.base import ModelDrafter, NullDrafter
from drafters.head import HeadDrafter
from drafters.registry import DrafterSpec
from models.base import LanguageModel
from models.errors import MemoryLimitError
from models.heads.head_model import HeadModel
from models.llama.model import LlamaModel
from models.llama.remote.remote_model import RemoteModel
from models.toy import ToyModel

_NEVER_EXACT = (
    "This device rounds a pass over several answers differently from a pass over one, so with several at once a "
    "near-tie between two tokens can resolve differently. For text that is equal to the last bit use -np 1."
)
_WORTH = 1.1
"""Least cost of separate passes over one shared pass: less gain is lost to llama.cpp's switch between texts."""


def further_slots(
    loader: Loader, spec: DrafterSpec, target: LanguageModel, drafting: Drafting, count: int
) -> Iterator[tuple[LanguageModel, Drafting]]:
    """Yield `count` further caches over a target's weights, each with a drafter like that of the first.

    Ends early, with a note of the loader, where there is no memory for another.
    """
    for number in range(count):
        try:
            yield _another(loader, spec, target, drafting)
        except MemoryLimitError as error:
            loader.notes.append(f"Answers at once: {number + 1} of {count + 1}. {error.cause}".strip())
            return


def _another(
    loader: Loader, spec: DrafterSpec, target: LanguageModel, drafting: Drafting
) -> tuple[LanguageModel, Drafting]:
    twin = _twin(target)
    try:
        return twin, like(loader, spec, twin, drafting)
    except BaseException:
        twin.close()
        raise


def like(loader: Loader, spec: DrafterSpec, target: LanguageModel, drafting: Drafting) -> Drafting:
    """Return the drafting of a further slot, like that of the first one, with its measured costs."""
    adaptive = drafting.adaptive
    if adaptive is None:
        return Drafting(NullDrafter())
    model = None if drafting.model is None else _beside(drafting.model, target)
    # The learnt corrections of a curve depend on the length of the text, so each slot has its own.
    state = adaptive.state
    costs = (replace(cost, curve=VerifyCurve(cost.curve.measured)) for cost in state.models.all)
    own = AdaptiveController(VerifyCurve(state.curve.measured), AnswerSettings(target.max_rows - 1), *costs)
    together = loader.together(spec, target, model, own, drafting.exact_draft or 0)
    return replace(together, exact_branches=drafting.exact_branches)


def shared_batch(
    loader: Loader, target: LanguageModel, slots: int, drafting: Drafting | None = None
) -> SharedBatch | None:
    """Reopen the target with one cache for `slots` answers, where shared passes are faster; None where not.

    Not under `--strict`, which has checked the cache as it is, and not with a head that views the cells of one text.
    """
    model = drafting.model.model if drafting and drafting.model else None
    if isinstance(model, HeadModel) and model.head.options.shares_cache:
        return None
    if slots == 1 or loader.plan.strict or target.rewind_support.limit is not None:
        return None
    exact = loader.exact_width(target)
    widest = usable_width(exact, target.max_rows, allow_rounding=loader.plan.allow_rounding)
    curve = VerifyCurve(loader.curve(target, [width for width in QUICK_WIDTHS if width <= widest]))
    if not any(_saves(curve, size) for size in range(2, min(slots, widest) + 1)):
        return None
    if exact == 1:
        loader.notes.append(_NEVER_EXACT)
    if isinstance(target, LlamaModel):
        target.reopen(replace(target.options, texts=slots))
    return SharedBatch(curve, exact)


def _saves(curve: VerifyCurve, size: int) -> bool:
    """Tell whether `size` answers gain by one pass: two may not where four do, as kernels work in blocks."""
    return size * curve.seconds(1) >= _WORTH * curve.seconds(size)


def bring_together(slots: Sequence[Slot], shared: SharedBatch | None) -> None:
    """Set up slots to share their passes, where there was memory for one cache of several texts."""
    if any(slot.is_beside(slots) for slot in slots):
        for slot in slots:
            slot.shared_batch = shared


def _beside(drafter: ModelDrafter, target: LanguageModel) -> ModelDrafter:
    """Return a drafter like another one for a further text: a head reads the rows of that text's target."""
    if isinstance(drafter, AlternativeModels):
        return AlternativeModels([_beside(one, target) for one in drafter.all])
    return drafter.beside(target if isinstance(drafter, HeadDrafter) else _twin(drafter.model))


def _twin(model: LanguageModel) -> LanguageModel:
    if isinstance(model, RemoteModel):
        raise MemoryLimitError("One answer at a time.", cause="A model over --rpc gives one answer at a time.")
    assert isinstance(model, LlamaModel | ToyModel), "a loader returns one of these"
    return model.twin()
