"""Trace of one round as values: the test of each draft token, the residual, the last draw.

    residual    positive part of target - draft at the rejected draft token, normalised
    noise       Gumbel noise of (seed, position, token); the token with the largest key is drawn
    key         ln(probability) + noise

`app.engine.trace.replay_round` makes them.
"""

from dataclasses import dataclass
from enum import StrEnum

from app.engine.decoding.verify import Verdict
from models.sampling.accept import Accept


class Fate(StrEnum):
    """Outcome of a draft token."""

    KEPT = "kept"
    REJECTED = "rejected"
    PASSED_OVER = "not looked at"


class LastTokenKind(StrEnum):
    """Kind of the last token of a round."""

    PLAIN = "plain"
    """Token of a round without a draft."""
    REPLACEMENT = "replacement"
    """Replacement of the first rejected draft token."""
    BONUS = "bonus"
    """Bonus token after a fully accepted draft, from that draft's pass."""
    SIBLING_BONUS = "sibling's bonus"
    """Bonus token after an accepted sibling."""


@dataclass(frozen=True, slots=True)
class Word:
    """Token to be shown."""

    token: int
    piece: bytes
    """Bytes that it adds to the text, which may end inside a character; b"" for a control token."""
    name: str
    """Spelling in the vocabulary."""


@dataclass(frozen=True, slots=True)
class Toss:
    """Test by a random number in [0, 1), which seed and place decide."""

    chance: float
    uniform: float
    came_up: bool
    """Whether the random number is below the chance."""


@dataclass(frozen=True, slots=True)
class Step:
    """Draft token and its test."""

    place: int
    """Place in the draft, from 0."""
    is_sibling: bool
    """Whether it stands beside the chain."""
    word: Word
    target_prob: float
    """Target's probability of it, as served; for a sibling under the residual rule, its probability in the residual."""
    draft_prob: float | None
    """Probability with which it was drawn from the draft; None: not drawn at random, counts as 1."""
    drafter_confidence: float | None
    """Drafter's confidence, 0 to 1; None: not stated."""
    fate: Fate
    choice: Word | None = None
    """Target's own token at this place; only under the coupled rule, for tokens that were checked."""
    toss: Toss | None = None
    """Test by a random number; None: the rule has none, or did not reach it."""
    scale: float | None = None
    """Block rule: probability that the draft can be accepted up to here, this token included."""
    threshold: float | None = None
    """Typical rule: the token is accepted when the target's probability is above it."""
    branch: int = 0
    """Branch of a sibling, from 1; 0: the chain. The first token after a sibling is in its branch."""


@dataclass(frozen=True, slots=True)
class ResidualShare:
    """Token's share of a residual."""

    word: Word
    target: float
    draft: float
    left: float
    """scale * target - draft, or 0 where that is negative."""
    chance: float
    """`left`, normalised."""


@dataclass(frozen=True, slots=True)
class Residual:
    """Residual at a rejected draft token."""

    after_sibling: bool
    """Whether a sibling was rejected: its target is then the residual before it."""
    scale: float
    """Factor of the target; 1 except under the block rule."""
    shares: tuple[ResidualShare, ...]
    """Most likely tokens in order, with the draft token and the replacement."""
    place: int
    """Place of the rejected draft token."""
    branch: int
    """Branch of the rejected draft token; see `Step`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Token that could have been drawn at the end of the round."""

    word: Word
    chance: float
    noise: float
    key: float


@dataclass(frozen=True, slots=True)
class Walk:
    """Trace of a round."""

    number: int
    """Of the rounds of its answer, from 1."""
    rule: Accept
    """Accept rule; coupled at temperature 0, where all rules are equal."""
    temperature: float
    source: str
    """Source of the draft."""
    before: tuple[Word, ...]
    """Last tokens before the round."""
    steps: tuple[Step, ...]
    """Draft tokens in order of place, a sibling after the chain's token."""
    residuals: tuple[Residual, ...]
    """Residuals of the place where the chain ended, and of those after it; one more for each rejected sibling."""
    candidates: tuple[Candidate, ...]
    """Candidates for the last token, the drawn one first; none at temperature 0, where nothing is drawn."""
    next: Word
    """Token after the accepted ones."""
    kind: LastTokenKind
    emitted: tuple[Word, ...]
    """Tokens that became text: fewer than were judged if the answer ended inside the round."""
    verdict: Verdict

    @property
    def judged(self) -> int:
        """Number of tokens that the round would have emitted if the answer had gone on."""
        return self.verdict.accepted + len(self.verdict.branch) + 1
