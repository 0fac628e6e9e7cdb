"""State of the adaptive controller: settings of the answer, throughput, probe budget, progress.

The policies read a `ControllerState` and change nothing. `AdaptiveController` alone changes it, by the methods here.
"""

from dataclasses import dataclass, field, replace

from app.engine.constants import PROBE_SHARE, RATE_CARRIED, RATE_MEMORY
from app.engine.control.acceptance import Acceptance
from app.engine.control.draft_model_cost import ModelCost
from app.engine.control.loss_budget import LossBudget
from app.engine.control.suffix_polling import SuffixPolling
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.round import Round
from drafters.base import Draft
from drafters.hybrid import Ask, ModelRequest


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """Limits of an answer, set from outside; replaced as a whole, never changed."""

    max_draft: int
    """Most tokens to draft in a round."""
    max_siblings: int = 0
    """Most siblings in a pass; 0: the model's memory or the accept rule does not allow them."""
    infill: bool = False
    """Whether the next answer is an infill."""
    companions: int = 0
    """Other answers in the pass: a draft has to beat the throughput of all of them."""


class Throughput:
    """Tokens a second of the last rounds, companions' tokens included."""

    def __init__(self) -> None:
        self._tokens = self._seconds = self._plain = 0.0

    def begin(self, plain: float) -> None:
        """Start an answer, at `plain` tokens a second without drafting: what the last one gained counts less."""
        gain = self._tokens / self._plain if self._plain > 0 else 1.0
        self._seconds *= RATE_CARRIED
        self._plain = plain * self._seconds
        self._tokens = gain * self._plain

    def at_least(self, plain: float) -> float:
        """Return the achieved tokens a second, at least `plain`."""
        return max(plain, self._tokens / self._seconds) if self._seconds > 0 else plain

    def observe(self, tokens: int, seconds: float, plain: float) -> None:
        """Count the tokens of a round, which would have had `plain` tokens a second without drafting."""
        self._tokens = RATE_MEMORY * self._tokens + tokens
        self._seconds = RATE_MEMORY * self._seconds + seconds
        self._plain = RATE_MEMORY * self._plain + plain * seconds


class ProbeBudget:
    """Seconds saved up for probes of a draft model that does not pay off, and the round of the next check."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.check_at = 0
        """Round of the answer before which no probe is considered."""

    def begin(self) -> None:
        """Start an answer: the seconds stay, and the first round checks."""
        self.check_at = 0

    def earn(self, seconds: float) -> None:
        """Add a share of a round's seconds."""
        self.seconds += PROBE_SHARE * seconds

    def spend(self) -> None:
        """Take out the seconds of a probe."""
        self.seconds = 0.0

    def check_again(self, at: int) -> None:
        """Take the round in which to check again."""
        self.check_at = at


class DraftModels:
    """Costs of the draft models, of which one drafts at a time; fewer than two: there is no choice."""

    def __init__(self, models: tuple[ModelCost, ...] = ()) -> None:
        """Take the costs; the first one drafts until another is chosen."""
        self.all = models
        self.used = models[0] if models else None
        self.is_chosen = False
        """Whether the choice was made in this answer."""
        self._failed: set[str] = set()

    @property
    def working(self) -> tuple[ModelCost, ...]:
        """Return those that did not fail in this answer."""
        return tuple(model for model in self.all if model.name not in self._failed)

    def begin(self) -> None:
        """Start an answer, for which the choice is made anew, among all."""
        self.is_chosen = False
        self._failed.clear()

    def fail(self, name: str) -> bool:
        """Take that a model failed: the choice is made anew among the others; return whether there are any."""
        self._failed.add(name)
        self.used, self.is_chosen = next(iter(self.working), self.used), False
        return bool(self.working)

    def choose(self, model: ModelCost) -> bool:
        """Let a model draft in this answer; return whether it is another one than before."""
        before, self.used, self.is_chosen = self.used, model, True
        return model is not before


class AnswerProgress:
    """Rounds and tokens of the running answer."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start an answer."""
        self.rounds = self.emitted = 0
        self.drafts_trees = False
        """Whether the last draft was one of a tree: such drafts are cut by their chances, not by earlier copies."""
        self.pending = 1
        """Tokens that the next pass reads before its draft: one more for each accepted sibling of this round."""

    def observe(self, round_: Round, proposed: Draft | None) -> None:
        """Count a round, and its draft as proposed; None: no drafter was called."""
        self.drafts_trees = self.drafts_trees or (proposed is not None and proposed.offers is not None)
        self.rounds += 1
        self.emitted += len(round_.emitted)
        self.pending = 1 + len(round_.verdict.branch)


@dataclass(slots=True)
class ControllerState:
    """Everything that the policies read."""

    settings: AnswerSettings
    curve: VerifyCurve
    """Seconds of the target's passes by width."""
    models: DraftModels = field(default_factory=DraftModels)
    acceptance: Acceptance = field(default_factory=Acceptance)
    throughput: Throughput = field(default_factory=Throughput)
    probes: ProbeBudget = field(default_factory=ProbeBudget)
    losses: LossBudget = field(default_factory=LossBudget)
    polling: SuffixPolling = field(default_factory=SuffixPolling)
    progress: AnswerProgress = field(default_factory=AnswerProgress)
    request: ModelRequest = field(default_factory=ModelRequest)
    """Last request to the draft model; kept after its round, since a model that drafted may draft again."""

    @property
    def model(self) -> ModelCost | None:
        """Return the draft model that drafts, with its cost; None: there is none."""
        return self.models.used

    @property
    def rate(self) -> float:
        """Return the tokens a second of the last rounds, at least those of plain decoding."""
        return self.rate_among(self.settings.companions)

    def rate_among(self, companions: int) -> float:
        """Return the rate with `companions` other answers in the pass."""
        return self.throughput.at_least(self.plain_rate(companions))

    def plain_rate(self, companions: int) -> float:
        """Return the tokens a second of plain decoding, with `companions` other answers in the pass."""
        return (1 + companions) / self.curve.seconds(1 + companions)

    @property
    def model_is_asked(self) -> bool:
        """Return whether the last request was to draft."""
        return self.request.ask is not Ask.NOTHING

    @property
    def part_reader(self) -> str:
        """Return the name prefix of sources that have read only part of their text; "": none."""
        return self.model.name if self.model is not None and self.request.reads_part else ""

    @property
    def losses_left(self) -> float:
        """Return the seconds left of the loss budget."""
        return self.losses.left(self.curve.seconds(1))

    def begin(self) -> None:
        """Start an answer: acceptance and throughput count half, probe budget and last request stay."""
        self.models.begin()
        self.acceptance.begin()
        self.curve.begin()
        self.throughput.begin(self.plain_rate(0))
        self.losses.begin(self.progress.emitted, infill=self.settings.infill)
        self.progress.begin()
        self.probes.begin()
        self.polling.begin()

    def use(self, settings: AnswerSettings) -> None:
        """Take the settings for the passes to come."""
        self.settings = settings

    def chosen(self, model: ModelCost, unread: int) -> None:
        """Take the draft model that drafts in this answer, with its unread tokens."""
        if self.models.choose(model):
            self.request = ModelRequest(unread=unread)

    def failed(self, name: str) -> None:
        """Take that a draft model failed; what was requested of it is not requested of another."""
        if self.models.fail(name):
            self.request = ModelRequest()

    def requested(self, request: ModelRequest) -> None:
        """Take the request to the draft model, and charge it to the loan or the probe budget."""
        self.request = request
        if request.is_loan:
            self.losses.lend()
        if request.is_probe:
            self.probes.spend()
        self.losses.expect(request.reading_seconds)

    def drafting_timed(self) -> float:
        """Return the seconds that the last request expected for a draft of one token, once; 0: none."""
        expected = self.request.expected_seconds
        if expected:
            self.request = replace(self.request, expected_seconds=0.0)
        return expected
