"""What the controller knows: values that last a round or an answer, and the small states that rounds change.

The policies read a `ControllerState` and change nothing. `AdaptiveController` alone changes it, by the methods here.
"""

from dataclasses import dataclass, field, replace

from app.engine.control.acceptance import Acceptance
from app.engine.control.draft_model_cost import ModelCost
from app.engine.control.loss_budget import LossBudget
from app.engine.control.suffix_polling import SuffixPolling
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.round import Round
from drafters.hybrid import Ask, ModelRequest

PROBE_SHARE = 0.01
"""Share of the time that may go into probing a draft model that does not pay now."""
_MEMORY = 0.93
"""Weight of the past in the achieved throughput, a round."""


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """What an answer allows, as set from outside; replaced as a whole, never written to."""

    max_draft: int
    """Most tokens to draft in a round."""
    max_siblings: int = 0
    """Most siblings in a pass; 0: the model's memory, or the accept rule, has no use for them."""
    infill: bool = False
    """Whether the next answer fills a gap in a text."""
    companions: int = 0
    """Other answers in the pass: a draft has to beat the throughput of all."""


class Throughput:
    """Tokens a second that recent rounds achieved, with those of other answers in their passes."""

    def __init__(self) -> None:
        self._tokens = self._seconds = 0.0

    def begin(self) -> None:
        """Forget the rounds of the last answer."""
        self._tokens = self._seconds = 0.0

    def at_least(self, plain: float) -> float:
        """Return the achieved tokens a second, or those of plain decoding where they are more."""
        return max(plain, self._tokens / self._seconds) if self._seconds > 0 else plain

    def observe(self, emitted: int, companions: int, seconds: float) -> None:
        """Count a round and the tokens of its companions."""
        self._tokens = _MEMORY * self._tokens + emitted + companions
        self._seconds = _MEMORY * self._seconds + seconds


class ProbeBudget:
    """Seconds set aside for probing a draft model that does not pay, and the round of the next check."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.check_at = 0
        """Round of the answer before which nothing is worked out anew."""

    def begin(self) -> None:
        """Start an answer: what is set aside stays, and the first round checks."""
        self.check_at = 0

    def earn(self, seconds: float) -> None:
        """Set aside a share of a round."""
        self.seconds += PROBE_SHARE * seconds

    def spend(self) -> None:
        """Pay for a probe."""
        self.seconds = 0.0

    def check_again(self, at: int) -> None:
        """Take the round in which to check again."""
        self.check_at = at


class AnswerProgress:
    """How far the answer is."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start an answer."""
        self.rounds = self.emitted = 0
        self.pending = 1
        """Tokens that the next pass reads before its draft: 2 after an accepted sibling."""

    def observe(self, round_: Round) -> None:
        """Count a round."""
        self.rounds += 1
        self.emitted += len(round_.emitted)
        self.pending = 1 if round_.verdict.sibling is None else 2


@dataclass(slots=True)
class ControllerState:
    """All that decisions depend on."""

    settings: AnswerSettings
    curve: VerifyCurve
    """Seconds of the target's passes by width."""
    model: ModelCost | None = None
    """The draft model and its cost; None: there is none."""
    acceptance: Acceptance = field(default_factory=Acceptance)
    throughput: Throughput = field(default_factory=Throughput)
    probes: ProbeBudget = field(default_factory=ProbeBudget)
    losses: LossBudget = field(default_factory=LossBudget)
    polling: SuffixPolling = field(default_factory=SuffixPolling)
    progress: AnswerProgress = field(default_factory=AnswerProgress)
    request: ModelRequest = field(default_factory=ModelRequest)
    """The last request to the draft model. It outlives its round: a model that drafted may be asked again."""

    @property
    def rate(self) -> float:
        """Return the tokens a second that rounds achieve now, never less than plain decoding would."""
        return self.rate_among(self.settings.companions)

    def rate_among(self, companions: int) -> float:
        """Return the rate where so many other answers share the pass."""
        return self.throughput.at_least((1 + companions) / self.curve.seconds(1 + companions))

    @property
    def model_is_asked(self) -> bool:
        """Return whether the last request was one to draft."""
        return self.request.ask is not Ask.NOTHING

    @property
    def part_reader(self) -> str:
        """Return the beginning of the sources that have read only part of their text; "": none."""
        return self.model.name if self.model is not None and self.request.reads_part else ""

    @property
    def losses_left(self) -> float:
        """Return the seconds that may be lost now."""
        return self.losses.left(self.curve.seconds(1))

    def begin(self) -> None:
        """Start an answer: acceptance counts half, throughput starts anew, probes and the last request stay."""
        self.acceptance.begin()
        self.curve.begin()
        self.throughput.begin()
        self.losses.begin(self.progress.emitted, infill=self.settings.infill)
        self.progress.begin()
        self.probes.begin()
        self.polling.begin()

    def use(self, settings: AnswerSettings) -> None:
        """Take the settings for the passes to come."""
        self.settings = settings

    def requested(self, request: ModelRequest) -> None:
        """Take the request that is made to the draft model, and what pays for it."""
        self.request = request
        if request.is_loan:
            self.losses.lend()
        if request.is_probe:
            self.probes.spend()
        self.losses.expect(request.reading_seconds)

    def drafting_timed(self) -> float:
        """Return the seconds that the last request expected of a draft of one token, once; 0: none."""
        expected = self.request.expected_seconds
        if expected:
            self.request = replace(self.request, expected_seconds=0.0)
        return expected
