"""What a plan names, loaded: models, measurements and drafters for one load, with the notes of all of them."""

from collections.abc import Mapping, Sequence

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.conversation.drafting import Drafting
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.round import Clock
from app.engine.runtime.draft_models import named_models
from app.engine.runtime.drafting_builder import DraftingBuilder
from app.engine.runtime.load import LoadPlan, ModelOpener, Progress
from app.engine.runtime.machine_measurements import MachineMeasurements
from drafters.base import ModelDrafter
from drafters.registry import DrafterSpec
from models.abort import AbortFlag
from models.base import LanguageModel
from models.system.other_programs import OtherPrograms


class Loader:
    """Opener, measurements and builder of one plan, and the notes of their calls; for the engine's thread.

    `target` comes before the measurements: under `--strict` they go on from what was checked there. Without it they
    check the target that they are given.
    """

    def __init__(self, plan: LoadPlan, abort: AbortFlag, clock: Clock, on_progress: Progress) -> None:
        self._plan = plan
        self.notes: list[str] = []
        """Sentences for the user, in the order of the calls."""
        self._clock = clock
        self._on_progress = on_progress
        self._opener = ModelOpener(plan, abort, clock, on_progress)
        self._others = OtherPrograms()
        self._measurements = MachineMeasurements(plan, clock, on_progress, others=self._others)

    @property
    def plan(self) -> LoadPlan:
        """The plan that is loaded."""
        return self._plan

    def target(self) -> LanguageModel:
        """Load the target; raises LocalspecError."""
        opened, notes = self._opener.target()
        self.notes += notes
        self._measurements = MachineMeasurements(
            self._plan, self._clock, self._on_progress, opened.checked, self._others
        )
        try:
            self._measurements.follow_free_cores(opened.model)
        except BaseException:
            opened.model.close()
            raise
        return opened.model

    def draft_model(self, name: str, target: LanguageModel) -> ModelDrafter:
        """Load a draft model for a target; raises ModelFileError, and PairError where it does not fit."""
        model, notes = self._opener.draft_model(name, target)
        self.notes += notes
        return model

    def named_models(self, target: LanguageModel, seconds: Mapping[int, float]) -> list[ModelDrafter]:
        """Load the draft model that the plan names and, if it may pay, the standing one; see `draft_models`."""
        plan = self._plan
        models, notes = named_models(self._opener, plan.drafter, plan.standing, target, seconds)
        self.notes += notes
        return models

    def standing_model(self, target: LanguageModel, seconds: Mapping[int, float]) -> ModelDrafter | None:
        """Load the draft model that needs no flag; see `ModelOpener.standing_model`."""
        return self._opener.standing_model(target, seconds)

    def drafting(self, spec: DrafterSpec, target: LanguageModel) -> Drafting:
        """Make the drafter of a spec; see `DraftingBuilder.build`."""
        drafting, notes = self._builder.build(spec, target)
        self.notes += notes
        return drafting

    def together(
        self,
        spec: DrafterSpec,
        target: LanguageModel,
        model: ModelDrafter | None,
        adaptive: AdaptiveController,
        exact_draft: int,
    ) -> Drafting:
        """Make a drafter of what is loaded and measured; see `DraftingBuilder.together`."""
        return self._builder.together(spec, target, model, adaptive, exact_draft)

    def exact_width(self, target: LanguageModel) -> int:
        """Return the widest exact pass; see `MachineMeasurements.exact_width`."""
        return self._measurements.exact_width(target)

    def exact_branches(self, target: LanguageModel) -> bool:
        """Tell whether siblings are exact; see `MachineMeasurements.exact_branches`."""
        return self._measurements.exact_branches(target)

    def draft_curve(self, model: LanguageModel) -> VerifyCurve:
        """Return the cost of a draft model's passes."""
        return self._measurements.draft_curve(model)

    def curve(self, model: LanguageModel, widths: Sequence[int], rows: int | None = None) -> dict[int, float]:
        """Return the seconds of passes by width; see `MachineMeasurements.curve`."""
        return self._measurements.curve(model, widths, rows)

    @property
    def _builder(self) -> DraftingBuilder:
        return DraftingBuilder(self._plan, self._opener, self._measurements)
