"""One round, step by step, as values: the test of each guess, what a rejected one was replaced from, the last draw.

    residual    what the target has over the draft where a guess was rejected, normalised
    noise       Gumbel noise of (seed, position, token): of all tokens, the one with the largest key is drawn
    key         ln(chance) + noise

`app.engine.trace.replay_round` makes them.
"""

from dataclasses import dataclass
from enum import StrEnum

from app.engine.decoding.verify import Verdict
from models.sampling.accept import Accept


class Fate(StrEnum):
    """What became of a guess."""

    KEPT = "kept"
    REJECTED = "rejected"
    PASSED_OVER = "not looked at"


class Kind(StrEnum):
    """What the last token of a round is."""

    PLAIN = "plain"
    """Nothing was guessed."""
    REPLACEMENT = "replacement"
    """It stands in the place of the first rejected guess."""
    BONUS = "bonus"
    """Every guess was kept, and its row came with the pass."""
    SIBLING_BONUS = "sibling's bonus"
    """A second guess was kept, and this one comes after it."""


@dataclass(frozen=True, slots=True)
class Word:
    """A token, to be shown."""

    token: int
    piece: bytes
    """What it adds to the text, which may end inside a character; b"" for a control token."""
    name: str
    """The vocabulary's own spelling."""


@dataclass(frozen=True, slots=True)
class Toss:
    """A coin: a number in [0, 1) that the seed and the place decide."""

    chance: float
    uniform: float
    came_up: bool
    """Whether the coin is below the chance."""


@dataclass(frozen=True, slots=True)
class Step:
    """A guess and its test."""

    place: int
    """Place in the draft, from 0."""
    is_sibling: bool
    """Whether it is the second guess for its place."""
    word: Word
    target_prob: float
    """Of the guess, as served; of a second guess that the residual rule tried, in the residual of the first."""
    draft_prob: float | None
    """That the guess was drawn with; None: it was not left to chance, and counts as certain."""
    drafter_confidence: float | None
    """How sure the drafter was; None: it has no opinion."""
    fate: Fate
    choice: Word | None = None
    """The target's own token at this place; coupled rule alone, and only for guesses that were looked at."""
    toss: Toss | None = None
    """The coin, of rules that have coins; None: none was tossed."""
    scale: float | None = None
    """Block rule: the chance so far that the draft can be kept up to here, this guess included."""
    threshold: float | None = None
    """Typical rule: the guess is kept when the target's probability is above it."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a residual makes of a token."""

    word: Word
    target: float
    draft: float
    left: float
    """scale * target - draft, where that is positive."""
    chance: float
    """The same, normalised."""


@dataclass(frozen=True, slots=True)
class Residual:
    """What the target has over the draft, at the place where a guess was rejected."""

    after_sibling: bool
    """Whether it is what is left after the second guess was rejected too: its target is then the residual before it."""
    scale: float
    """Factor of the target; 1 but for the block rule."""
    shares: tuple[Share, ...]
    """Its likeliest tokens, the likeliest first, and with them the guess and the replacement."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that could have been drawn at the end of the round."""

    word: Word
    chance: float
    noise: float
    key: float


@dataclass(frozen=True, slots=True)
class Walk:
    """A round, as it was judged."""

    number: int
    """Of the rounds of its answer, from 1."""
    rule: Accept
    """At temperature 0 all rules are one, and it is called coupled."""
    temperature: float
    source: str
    """Who guessed."""
    before: tuple[Word, ...]
    """The last tokens before the round."""
    steps: tuple[Step, ...]
    """The guesses, a second guess after the first of its place."""
    residuals: tuple[Residual, ...]
    """What a replacement was drawn from; two where a second guess was tried in between, and rejected as well."""
    candidates: tuple[Candidate, ...]
    """Of the last token, the drawn one first; none at temperature 0, where nothing is drawn."""
    next: Word
    """The token after the guesses that were kept."""
    kind: Kind
    emitted: tuple[Word, ...]
    """What became text: fewer tokens than were judged where the answer ended among them."""
    verdict: Verdict

    @property
    def judged(self) -> int:
        """Tokens that the round would have emitted, had the answer gone on."""
        return self.verdict.accepted + (self.verdict.sibling is not None) + 1
