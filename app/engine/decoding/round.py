"""Record of one round of the decoding loop."""

from collections.abc import Callable
from dataclasses import dataclass

from app.engine.decoding.disagreement import Disagreement
from app.engine.decoding.ending import Finish
from app.engine.decoding.logprobs import Likelihood
from app.engine.decoding.verify import Verdict
from drafters.base import Draft

Clock = Callable[[], float]
"""Seconds, from any origin, never backwards."""


@dataclass(frozen=True, slots=True)
class Round:
    """Record of one round: draft, verify, accept, rewind. Times are in seconds."""

    draft: Draft
    verdict: Verdict
    emitted: tuple[int, ...]
    """Tokens added to the text: the accepted ones and the next, cut where the answer ends."""
    prefix_length: int
    """Tokens of prompt and answer before this round."""
    draft_seconds: float
    """Time in the drafter: proposing, and learning the outcome."""
    verify_seconds: float
    """Time of the target's pass."""
    host_seconds: float
    """Time of everything else: accept rule, text, rewind."""
    finish: Finish | None
    """Reason if the answer ends with this round; None: it goes on."""
    width: int
    """Tokens of the target's pass: pending tokens, draft, siblings."""
    disagreement: Disagreement | None = None
    """Disagreement at the rejected draft token; None: none was rejected."""
    others: int = 0
    """Other answers in a shared pass, one token each."""
    counts: bool = True
    """Whether a shared pass is counted in this round, as it is in exactly one of its rounds."""
    likelihoods: tuple[Likelihood, ...] = ()
    """Log probabilities of each emitted token, where the question asks for them."""
    wait_seconds: float = 0.0
    """Time since the previous round that is in none of the times above: turns of others, sending of messages."""

    @property
    def accepted(self) -> int:
        """Draft tokens that became text; at the end of an answer this can be fewer than the verdict accepted."""
        return min(self.verdict.accepted + len(self.verdict.branch), len(self.emitted))
