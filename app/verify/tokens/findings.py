"""Findings of a token check so far, complete or not."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.bench.measuring.arms import Skipped
from app.bench.measuring.benchmark import BenchConditions
from app.engine.costs.provenance import Provenance
from app.verify.tokens.certify import CertificateOutcome, Compared, Tally, outcome, tallies
from app.verify.tokens.fork import Fork, ForkKind
from app.verify.tokens.request import VerifyRequest
from models.errors import DivergedError
from models.system.counted import counted


@dataclass(slots=True)
class CertificateFindings:
    """Request of a token check, and its results so far."""

    request: VerifyRequest
    conditions: BenchConditions | None = None
    """None until the models are loaded."""
    provenance: Provenance | None = None
    """None until the files are hashed."""
    notes: list[str] = field(default_factory=list)
    """Notes on the load for the user."""
    compared: list[Compared] = field(default_factory=list)
    """Answers to the turns that every arm has answered."""
    skipped: list[Skipped] = field(default_factory=list)
    interrupted: bool = False

    @property
    def forks(self) -> list[Fork]:
        """All forks, in the order in which they were found."""
        return [fork for one in self.compared for fork in one.forks]

    @property
    def bugs(self) -> list[Fork]:
        """Forks that rounding does not explain."""
        return [fork for fork in self.forks if fork.kind is ForkKind.BUG]

    @property
    def widest_near_tie(self) -> Fork | None:
        """Near-tie with the largest gap; None: there is none."""
        ties = [fork for fork in self.forks if fork.kind is ForkKind.NEAR_TIE]
        return max(ties, key=lambda fork: fork.gap or 0.0, default=None)

    @property
    def prompts(self) -> list[str]:
        """Ids of the prompts that were answered."""
        return list(dict.fromkeys(one.turn[0].prompt for one in self.compared))

    def tallies(self) -> list[Tally]:
        """Return the counts by temperature and arm."""
        return tallies(self.compared)

    def outcome(self) -> CertificateOutcome:
        """Return the outcome of the whole comparison."""
        return outcome(self.compared)

    def verdict(self) -> str:
        """Return the outcome in plain words."""
        counts = self.tallies()
        tokens, answers = sum(tally.tokens for tally in counts), sum(tally.answers for tally in counts)
        drafted, accepted = sum(tally.drafted for tally in counts), sum(tally.accepted for tally in counts)
        match self.outcome():
            case CertificateOutcome.EXACT:
                drafting = sum(tally.drafting for tally in counts)
                return (
                    f"Exact: all {tokens:,} tokens of {counted(answers, 'answer')} are those of plain "
                    f"decoding. {drafting} of them drafted {drafted:,} tokens, {accepted:,} of which were "
                    f"accepted.{_idle(counts)}"
                )
            case CertificateOutcome.ROUNDING:
                forks = f"{len(self.forks)} of {answers} answers diverge from plain decoding"
                return f"No bug: {forks}. {self._ties()}"
            case CertificateOutcome.BUG:
                return (
                    f"BUG: {len(self.bugs)} of {answers} answers diverge from plain decoding where rounding "
                    "does not explain it. Please report it, with this certificate."
                )
            case CertificateOutcome.NOTHING:
                return "Nothing was checked, as no token was drafted."

    def check(self) -> None:
        """Raise DivergedError when a fork is a bug."""
        if not self.bugs:
            return
        first = self.bugs[0]
        raise DivergedError(
            f"{len(self.bugs)} drafted answers differ from plain decoding, and not by rounding.",
            cause=f"{first.arm}, {first.prompt}, turn {first.turn + 1}, temperature {first.temperature:g}: "
            f"token {first.place} is the first that differs; {first.reason}.",
            hint="A drafter must change only the speed: please report it, with the certificate.",
        )

    def _ties(self) -> str:
        """Return the explanation of near-ties."""
        assert self.conditions is not None, "answers come after loading"
        text = (
            "At each fork two tokens were nearly tied, and this machine rounds a pass over several tokens differently "
            "from one token at a time."
        )
        if self.request.bench.allow_rounding or self.conditions.exact_draft == 0:
            return text
        return (
            f"{text} The drafts were within the width that was measured as exact, which it is not at these places. "
            "--strict checks the widths that are used."
        )


def _idle(counts: Sequence[Tally]) -> str:
    """Return the sentence on arms that drafted nothing."""
    arms = [f"{tally.arm} at temperature {tally.temperature:g}" for tally in counts if not tally.drafted]
    return f" Nothing was drafted by {', nor by '.join(arms)}, so these are not checked." if arms else ""
