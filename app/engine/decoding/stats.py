"""Statistics of speculation: counts, and rates that are None where they have no meaning."""

from dataclasses import dataclass, field

from app.engine.decoding.round import Round


@dataclass(slots=True)
class Stats:
    """Counters of one answer; only `observe` adds a round. Times are in seconds."""

    prompt_tokens: int = 0
    """Tokens of the prompt, reused ones included."""
    reused_tokens: int = 0
    """Prompt tokens reused from the cache."""
    prompt_seconds: float = 0.0
    """Time to read the rest of the prompt."""
    first_token_seconds: float | None = None
    """Time from the request to the first emitted tokens; None before them."""
    rounds: int = 0
    drafts: int = 0
    """Rounds with a draft."""
    drafted: int = 0
    """Draft tokens verified by the target."""
    accepted: int = 0
    """Draft tokens that became text."""
    emitted: int = 0
    """Tokens of the answer, an end token included."""
    drafted_at: list[int] = field(default_factory=list)
    """Drafts that reached each position: index 0 is the first draft token."""
    accepted_at: list[int] = field(default_factory=list)
    """Drafts whose token at each position was accepted."""
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    host_seconds: float = 0.0
    first_emitted: int = 0
    """Tokens of the first round, whose time belongs to the first token."""
    first_seconds: float = 0.0
    """Time of the first round."""
    wait_seconds: float = 0.0
    """Time between rounds after the first, spent on other answers."""
    emitted_when_drafted: int = 0
    """Tokens emitted by rounds that drafted."""

    def observe(self, round_: Round) -> None:
        """Count a round."""
        seconds = round_.draft_seconds + round_.verify_seconds + round_.host_seconds
        if self.rounds == 0:
            self.first_emitted, self.first_seconds = len(round_.emitted), seconds
        else:
            self.wait_seconds += round_.wait_seconds
        self.rounds += 1
        self.emitted += len(round_.emitted)
        self.draft_seconds += round_.draft_seconds
        self.verify_seconds += round_.verify_seconds
        self.host_seconds += round_.host_seconds
        if round_.draft.tokens:
            self._observe_draft(round_)

    def _observe_draft(self, round_: Round) -> None:
        drafted = len(round_.draft.tokens)
        accepted = min(round_.verdict.accepted, len(round_.emitted))
        self.drafts += 1
        self.drafted += round_.draft.size
        self.accepted += round_.accepted
        self.emitted_when_drafted += len(round_.emitted)
        missing = max(0, drafted - len(self.drafted_at))
        self.drafted_at += [0] * missing
        self.accepted_at += [0] * missing
        for place in range(drafted):
            self.drafted_at[place] += 1
            self.accepted_at[place] += place < accepted

    @property
    def seconds(self) -> float:
        """Time in rounds."""
        return self.draft_seconds + self.verify_seconds + self.host_seconds

    @property
    def tokens_per_second(self) -> float | None:
        """Emitted tokens over time, both without the first round."""
        return ratio(self.emitted - self.first_emitted, self.seconds - self.first_seconds + self.wait_seconds)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over drafted tokens."""
        return ratio(self.accepted, self.drafted)

    @property
    def mean_acceptance_length(self) -> float | None:
        """Emitted tokens per round with a draft, replacement or bonus included."""
        return ratio(self.emitted_when_drafted, self.drafts)

    @property
    def coverage(self) -> float | None:
        """Rounds with a draft over all rounds, 0 to 1."""
        return ratio(self.drafts, self.rounds)

    def snapshot(self) -> "Snapshot":
        """Return a frozen copy for screens and records."""
        return Snapshot(
            self.prompt_tokens, self.reused_tokens, self.prompt_seconds, self.first_token_seconds,
            self.rounds, self.drafts, self.drafted, self.accepted, self.emitted,
            tuple(self.drafted_at), tuple(self.accepted_at),
            self.draft_seconds, self.verify_seconds, self.host_seconds,
            self.tokens_per_second, self.acceptance_rate, self.mean_acceptance_length, self.coverage,
            self.wait_seconds,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`Stats` at one moment; see there for each field."""

    prompt_tokens: int
    reused_tokens: int
    prompt_seconds: float
    first_token_seconds: float | None
    rounds: int
    drafts: int
    drafted: int
    accepted: int
    emitted: int
    drafted_at: tuple[int, ...]
    accepted_at: tuple[int, ...]
    draft_seconds: float
    verify_seconds: float
    host_seconds: float
    tokens_per_second: float | None
    acceptance_rate: float | None
    mean_acceptance_length: float | None
    coverage: float | None
    wait_seconds: float = 0.0


def ratio(part: float, whole: float) -> float | None:
    """Return part over whole; None for a whole of 0."""
    return part / whole if whole > 0 else None
