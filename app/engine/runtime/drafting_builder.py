"""From the name of a drafter to a drafter for a loaded target, with its controller and what was measured for both.

A drafter that was named works or is refused; "auto" never fails.
"""

from dataclasses import replace
from functools import partial

from app.engine.control.acceptance_store import stored_acceptance
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings
from app.engine.control.draft_model_cost import ModelCost
from app.engine.conversation.drafting import Drafting
from app.engine.costs.pass_cost import QUICK_WIDTHS, VerifyCurve
from app.engine.costs.usable_width import usable_width
from app.engine.runtime.draft_models import named_models
from app.engine.runtime.head_cost import cost_of
from app.engine.runtime.heads import no_head, open_own_head
from app.engine.runtime.load import LoadPlan, ModelOpener, Notes
from app.engine.runtime.machine_measurements import MachineMeasurements
from drafters.alternatives import one_of, parts_of
from drafters.base import ModelDrafter, NullDrafter
from drafters.head import HeadDrafter
from drafters.history.drafter import Recall
from drafters.history.store import TextMemory
from drafters.hybrid import Hybrid
from drafters.online.draft_model import CorrectedDraftModel
from drafters.registry import AUTO, HEAD, OFF, DrafterSpec, drafts_trees, free_drafters
from drafters.suffix import SuffixDrafter
from models.base import LanguageModel
from models.errors import LocalspecError, PairError
from models.llama.cache_types import summed_in_parts
from models.llama.exact_width import WIDEST
from models.llama.load import has_gpu
from models.llama.model import LlamaModel
from models.llama.remote.remote_model import RemoteModel
from models.system.remembered import Remembered
from models.text.fim import text_order

_NEVER_EXACT = (
    "With these settings this device rounds every pass over several tokens differently from one token at a time, so "
    "with drafting a near-tie between two tokens can resolve differently. For text that is equal to the last bit use "
    "--strict or --draft off"
)

_NOT_ONLINE = (
    "--online has no effect: it corrects a draft model that has the target's tokens. Name one with --draft FILE."
)


class DraftingBuilder:
    """Makes the drafter of a target, from opened models and measured costs."""

    def __init__(self, plan: LoadPlan, opener: ModelOpener, measurements: MachineMeasurements) -> None:
        self._plan = plan
        self._opener = opener
        self._measurements = measurements

    def build(self, spec: DrafterSpec, target: LanguageModel) -> tuple[Drafting, Notes]:
        """Return the drafter of a spec, and notes; raises PairError or ModelFileError, but not for "auto" alone.

        The first time for a model its passes are timed and compared: the cache of the target is empty after that, and
        a conversation is read again when it goes on.
        """
        if spec.kind == OFF:
            return Drafting(NullDrafter()), ()
        if target.rewind_support.limit == 0:
            return Drafting(NullDrafter()), _refused(spec, target)
        exact = self._measurements.exact_width(target)
        curve = self._curve(target, exact)
        models, notes = self._models(spec, target, curve)
        try:
            drafting = self._measured(spec, target, models, curve, exact)
        except BaseException:
            for one in models:
                one.close()
            raise
        # The toy is never inexact: 1 is then a context without room for a wider pass.
        if self._plan.online and not any(isinstance(model, CorrectedDraftModel) for model in models):
            notes = (*notes, _NOT_ONLINE)
        if drafting.exact_draft == 0 and isinstance(target, LlamaModel | RemoteModel):
            floats = summed_in_parts(target.cache_types) and not has_gpu(target.options)
            notes = (*notes, _NEVER_EXACT + (", or leave out -ctk and -ctv." if floats else "."))
        return drafting, notes

    def _curve(self, target: LanguageModel, exact: int) -> VerifyCurve:
        widest = usable_width(exact, WIDEST, allow_rounding=self._plan.allow_rounding)
        return self._measurements.target_curve(target, [width for width in QUICK_WIDTHS if width <= widest])

    def _models(self, spec: DrafterSpec, target: LanguageModel, curve: VerifyCurve) -> tuple[list[ModelDrafter], Notes]:
        """Return the draft models or the head of a spec; for "auto" alone a head, if there is one.

        After a head or a named draft model comes the standing model, where it may pay: the controller chooses.
        """
        if spec.model:
            return named_models(self._opener, spec, self._plan.standing, target, curve.measured)
        if spec.kind == HEAD:
            own = open_own_head(target)
            if own is None:
                raise no_head(target)
            return [own], ()
        if spec.kind != AUTO:
            return [], ()
        head, notes = self._head(target)
        try:
            standing = self._opener.standing_model(target, curve.measured)
        except BaseException:
            if head is not None:
                head.close()
            raise
        return [found for found in (head, standing) if found is not None], notes

    def _head(self, target: LanguageModel) -> tuple[ModelDrafter | None, Notes]:
        """Return the head of a target that needs no flag; one that fails is no reason to fail."""
        try:
            return open_own_head(target), ()
        except LocalspecError as error:
            return None, (f"The draft head of {target.name} is not used: {error.title} {error.cause}".strip(),)

    def _measured(
        self, spec: DrafterSpec, target: LanguageModel, models: list[ModelDrafter], curve: VerifyCurve, exact: int
    ) -> Drafting:
        measurements = self._measurements
        costs = [self._cost(model, spec.model if place == 0 else "") for place, model in enumerate(models)]
        branches = (bool(models) or drafts_trees(spec.kind)) and measurements.exact_branches(target)
        adaptive = AdaptiveController(curve, AnswerSettings(target.max_rows - 1), *costs)
        drafting = self.together(spec, target, one_of(models), adaptive, exact - 1)
        drafting.introduce(target)
        curves = [(target, curve), *((model.model, cost.curve) for model, cost in zip(models, costs, strict=True))]
        return replace(drafting, exact_branches=branches, doubt_costs=partial(measurements.doubt, curves))

    def _cost(self, model: ModelDrafter, named: str) -> ModelCost:
        """Return the cost of a head, or of a draft model: the `named` one, or the standing one, which has no name."""
        is_tuned = isinstance(model, HeadDrafter) or self._opener.is_tuned(named or self._plan.standing)
        return cost_of(model, self._measurements.draft_curve(model.model), is_tuned=is_tuned)

    def together(
        self,
        spec: DrafterSpec,
        target: LanguageModel,
        model: ModelDrafter | None,
        adaptive: AdaptiveController,
        exact_draft: int,
    ) -> Drafting:
        """Return one drafter of the free ones, the memory of earlier runs, and a draft model if there is one."""
        free, texts, order = free_drafters(spec, target.vocab.is_end), self._plan.texts, text_order(target.vocab)
        copies = any(isinstance(drafter, SuffixDrafter) for drafter in free)
        memory = TextMemory(texts, target.vocab, target.name) if texts is not None and copies else None
        recall = Recall(target.vocab.is_end) if memory is not None else None
        hybrid = Hybrid([*free, *([recall] if recall else [])], model, adaptive, order)
        known = Remembered(self._plan.memory)
        records = (stored_acceptance(known, target, one, adaptive.acceptance) for one in parts_of(model))
        kept = tuple(record for record in records if record is not None)
        return Drafting(hybrid, adaptive, exact_draft, memory, recall, model, kept)


def _refused(spec: DrafterSpec, target: LanguageModel) -> Notes:
    """Return the note that a target which can't be rewound is not drafted for; raises PairError for a named drafter."""
    reason = f"{target.name} can't take back rejected tokens ({target.rewind_support.reason})"
    if spec.kind != AUTO or spec.model:
        raise PairError(f"--draft {spec} can't be used: {reason}.", hint="Use --draft off with this model.")
    return (f"No drafting: {reason}.",)
