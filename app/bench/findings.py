"""Findings of a benchmark so far, complete or not."""

from dataclasses import dataclass, field

from app.bench.measuring.arms import PLAIN, ArmAnswer, Skipped
from app.bench.measuring.benchmark import BenchConditions
from app.bench.measuring.league import ClassLeague, leagues
from app.bench.measuring.results import Oracle, Overall, Result, overall, results
from app.bench.request import BenchRequest
from models.errors import DivergedError


@dataclass(slots=True)
class BenchFindings:
    """Request of a benchmark, and its results so far."""

    request: BenchRequest
    conditions: BenchConditions | None = None
    """None until the models are loaded."""
    notes: list[str] = field(default_factory=list)
    """Notes on the load for the user."""
    answers: list[ArmAnswer] = field(default_factory=list)
    """Answers to the turns that every arm has answered."""
    skipped: list[Skipped] = field(default_factory=list)
    interrupted: bool = False

    def results(self) -> list[Result]:
        """Return the figures by temperature, class and arm."""
        return results(self.answers, self._oracle)

    def overall(self) -> list[Overall]:
        """Return the speed-up of each arm over all classes."""
        return overall(self.answers, self._oracle)

    def leagues(self) -> list[ClassLeague]:
        """Return the methods ranked in each class at each temperature."""
        return leagues(self.results(), self.answers)

    @property
    def _oracle(self) -> Oracle | None:
        return self.conditions.oracle if self.conditions else None

    def check_texts(self) -> None:
        """Raise DivergedError if an arm's text differs from plain decoding's although all passes should be exact."""
        forked = [answer for answer in self.answers if answer.fork is not None]
        # A device that is exact at no width still drafts, and may round differently.
        rounds = self.request.allow_rounding or (self.conditions is not None and self.conditions.exact_draft == 0)
        if rounds or not forked:
            return
        first, drafted = forked[0], [answer for answer in self.answers if answer.arm != PLAIN]
        raise DivergedError(
            f"{len(forked)} of {len(drafted)} drafted answers differ from plain decoding.",
            cause=f"{first.arm}, {first.prompt}, turn {first.turn + 1}: token {first.fork} is the first that differs.",
            hint="A drafter must change only the speed: please report it. With --allow-rounding it is no failure.",
        )
