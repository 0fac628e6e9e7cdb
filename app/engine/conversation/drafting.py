"""The drafter of a loaded target, with what was measured and stored for it."""

from collections.abc import Callable
from dataclasses import dataclass

from app.engine.control.acceptance_store import AcceptanceStore
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings
from app.engine.control.explain import Explanation, explain
from drafters.alternatives import parts_of
from drafters.base import Drafter, ModelDrafter
from drafters.history.drafter import Recall
from drafters.history.store import TextMemory
from drafters.hybrid import Hybrid
from drafters.online.draft_model import CorrectedDraftModel
from models.base import LanguageModel


@dataclass(frozen=True, slots=True)
class Drafting:
    """The drafter of a target, and the controller that decides when it drafts and how long."""

    drafter: Drafter
    adaptive: AdaptiveController | None = None
    """None: nothing is drafted."""
    exact_draft: int | None = None
    """Longest draft, in tokens, whose pass equals one-token passes bit for bit; None: nothing is drafted."""
    memory: TextMemory | None = None
    """Store of prompts and answers for later runs; None: they are not kept."""
    recall: Recall | None = None
    """The drafter that copies from that store; it holds no texts yet."""
    model: ModelDrafter | None = None
    """The draft model inside `drafter`, which may be several; None: it has none."""
    records: tuple[AcceptanceStore, ...] = ()
    """Acceptance of each draft model in earlier runs, where it is kept."""
    exact_branches: bool = False
    """Whether siblings beside a draft are verified as exactly as the draft."""
    doubt_costs: Callable[[], None] = lambda: None
    """Marks stored pass costs that real passes have disproved; they are measured again at the next load."""

    def introduce(self, target: LanguageModel) -> None:
        """Measure how often each draft model agrees with a target that it has never drafted for."""
        for record in self.records:
            record.introduce(target)

    def explanation(self, settings: AnswerSettings | None = None, *, adapts: bool) -> Explanation | None:
        """Return what drafting costs and gains here; None where nothing is drafted.

        `settings` are those of the next answer; None: those of the last. `adapts`: whether draft lengths adapt.
        """
        failures = self.drafter.failures if isinstance(self.drafter, Hybrid) else {}
        return explain(self.adaptive, settings, adapts=adapts, failures=failures) if self.adaptive else None

    def learn(self) -> None:
        """Count what the last answer has taught a draft model that is corrected; for the time between answers."""
        for drafter in parts_of(self.model):
            if isinstance(drafter, CorrectedDraftModel):
                drafter.learn()

    def leave(self) -> None:
        """Free the drafter; write down the acceptance of its model, and which pass costs were wrong."""
        self.learn()
        self.keep_records()
        self.doubt_costs()
        self.drafter.close()

    def keep_records(self, least: int = 1) -> None:
        """Write down the acceptance of each draft model of which at least `least` draft tokens are new."""
        for record in self.records:
            record.keep(least)
