"""Who guesses for a loaded target, with what was found out for it."""

from dataclasses import dataclass

from app.engine.control.acceptance_store import AcceptanceStore
from app.engine.control.adaptive_controller import AdaptiveController
from drafters.base import Drafter
from drafters.draft_model import DraftModel
from drafters.history.drafter import Recall
from drafters.history.store import TextMemory
from models.base import LanguageModel


@dataclass(frozen=True, slots=True)
class Drafting:
    """Who guesses for a target, and who decides when and how long."""

    drafter: Drafter
    adaptive: AdaptiveController | None = None
    """None: nobody guesses."""
    exact_draft: int | None = None
    """Longest draft whose pass gives, bit for bit, what one token at a time would; None: nobody guesses."""
    memory: TextMemory | None = None
    """Where what is said goes; None: it is not kept."""
    recall: Recall | None = None
    """Who copies from what is kept; with no texts yet."""
    model: DraftModel | None = None
    """The draft model among those who guess; None: there is none."""
    record: AcceptanceStore | None = None
    """What that has shown in earlier runs; None: nothing is kept of it."""
    exact_branches: bool = False
    """Whether second guesses beside a draft are checked as exactly as the draft."""

    def introduce(self, target: LanguageModel) -> None:
        """See how often the draft model agrees with a target that it has never guessed for."""
        if self.record is not None and self.model is not None:
            self.record.introduce(target, self.model.model)

    def leave(self) -> None:
        """Free who guesses; what he has shown stays."""
        self.keep_record()
        self.drafter.close()

    def keep_record(self) -> None:
        """Write down what the draft model has shown, if any of it is new."""
        if self.record is not None:
            self.record.keep(least=1)
