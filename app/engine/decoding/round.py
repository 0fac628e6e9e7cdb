"""One round of the loop, as everyone learns of it who was not in it."""

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
    """One round: draft, verify, accept, rewind."""

    draft: Draft
    verdict: Verdict
    emitted: tuple[int, ...]
    """Tokens added to the text: the accepted ones and the next, cut where the answer ends."""
    prefix_length: int
    """Tokens of prompt and answer before this round."""
    draft_seconds: float
    """Time in the drafter: guessing, and learning the outcome."""
    verify_seconds: float
    """Time of the target's pass."""
    host_seconds: float
    """Time of everything else: the accept rule, the text, the rewind."""
    finish: Finish | None
    """Why the answer ends with this round; None: it goes on."""
    width: int
    """Tokens of the target's pass: those pending, and the draft with its siblings."""
    disagreement: Disagreement | None = None
    """What the target made of the guess that it rejected; None: it rejected none."""
    others: int = 0
    """Other answers, a token each, in the same pass."""
    counts: bool = True
    """Whether this round is the one, of those that shared a pass, by which the pass is counted."""
    likelihoods: tuple[Likelihood, ...] = ()
    """Of each emitted token, where somebody asked."""
    wait_seconds: float = 0.0
    """Time since the round before that is in none of the times above: others' turns, and telling of a round."""

    @property
    def accepted(self) -> int:
        """Draft tokens that became text; at the end of an answer this can be fewer than the verdict accepted."""
        return min(self.verdict.accepted + (self.verdict.sibling is not None), len(self.emitted))
