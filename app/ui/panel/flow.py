"""Figures of the running or last answer, and totals over all answers: counted, not estimated.

Speed-up and reasons alone also use costs that the engine measured in this run.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil

from app.engine.control.explain import Explanation
from app.engine.conversation.messages import Ended, Ready, Said, Watched
from app.engine.conversation.session import Reading
from app.engine.decoding.ending import Finish
from app.engine.decoding.origins import Origin, origins
from app.engine.decoding.round import Round
from app.engine.decoding.stats import Snapshot, Stats
from app.ui.panel.compared import Compared
from app.wording.explanation import Pause, length_reason, pauses
from models.sampling.accept import Accept
from models.system.other_programs import OtherPrograms

NOW_SECONDS = 2.0
"""Time in rounds that the speed of the moment is taken over."""
BEATS = 240
"""Rounds that are kept for a sparkline."""
_MEMORY_SECONDS = 1.0
"""Time between two looks at the memory of this process."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A round, as far as it is drawn."""

    emitted: int
    drafted: int
    accepted: int


@dataclass(slots=True)
class SourceTally:
    """Counts of one drafter since the models were loaded."""

    name: str
    drafts: int = 0
    drafted: int = 0
    """Verified draft tokens, second proposals included."""
    accepted: int = 0
    gained: int = 0
    """Tokens emitted beyond one for each pass."""

    @property
    def share(self) -> float | None:
        """Accepted over drafted tokens."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Shares of the time in rounds; together 1."""

    draft: float
    verify: float
    host: float


def process_memory() -> int:
    """Return the bytes of memory that this process has in use, files that it has mapped included."""
    return int(psutil.Process().memory_info().rss)


class Flow:
    """Figures of the running answer, or of the last; a rate is None where it has no meaning."""

    def __init__(self, memory: Callable[[], int] = process_memory, others: Callable[[], float] | None = None) -> None:
        """Begin without an answer.

        `memory` returns the memory of this process in bytes, `others` the share of the cores that other programs hold.
        """
        self.running = False
        """Whether an answer is being given."""
        self.loading: tuple[str, float | None] | None = None
        """File being loaded, and the share done, 0 to 1; see `app.engine.runtime.load.Progress`."""
        self.reading: Reading | None = None
        """Progress of the prefill; None: no prompt is being read."""
        self.finish: Finish | None = None
        """Reason for the end of the last answer."""
        self.accept = Accept.COUPLED
        """The rule that the last drafts were judged by."""
        self.model = ""
        """The target's name; "" before the models are loaded."""
        self.drafter = ""
        """Name of the drafter; "" before the models are loaded."""
        self.context_size = 0
        """Tokens that the context has room for; 0: not known yet."""
        self.context_used = 0
        """Tokens of the conversation in the context."""
        self.memory: int | None = None
        """Bytes that this process has in use."""
        self.explanation: Explanation | None = None
        """Costs and acceptance probabilities known to the engine; None without a drafter or before the first report."""
        self.last: Round | None = None
        """The last round of the answer."""
        self.beats: deque[Beat] = deque(maxlen=BEATS)
        """The last rounds of the answer, the latest at the end."""
        self.origins: Counter[Origin] = Counter()
        """Tokens of the answer by where they came from."""
        self.others = 0.0
        """Share of the cores that other programs hold, 0 to 1."""
        self._measure_memory = memory
        self._measure_others = others or OtherPrograms()
        self._measured = float("-inf")
        self._stats = Stats()
        # Tokens and seconds up to the end of a round: of all those in the last two seconds, and of the one before them.
        self._recent: deque[tuple[int, float]] = deque()
        self._tallies: dict[str, SourceTally] = {}
        self._answers = 0
        self._compared = Compared()
        self._past_seconds = self._past_plain_seconds = 0.0

    def ready(self, ready: Ready) -> None:
        """Start over with newly loaded models, or with another drafter."""
        if ready.model != self.model:
            self.context_used = 0
        self.model, self.drafter, self.context_size = ready.model, ready.drafter, ready.context_size
        self.loading = None
        self.begin()
        self.running = False
        self._tallies.clear()
        self._answers = 0
        self._past_seconds = self._past_plain_seconds = 0.0

    def begin(self) -> None:
        """Start an answer."""
        self._keep()
        self._stats = Stats()
        self._compared = Compared()
        self._recent.clear()
        self.beats.clear()
        self.origins.clear()
        self.last = self.finish = self.explanation = None
        self.running = True

    def idle(self) -> None:
        """Mark the engine as idle."""
        self.running = False
        self.loading = self.reading = None

    def recall(self, tokens: int) -> None:
        """Take the tokens that a reopened conversation has in the context."""
        self._hold(tokens)

    def hear(self, message: Said | Watched | Ended, now: float) -> None:
        """Add a message about the running answer, at time `now` in seconds."""
        if isinstance(message, Said):
            self._on_round(message.round)
        elif isinstance(message, Watched):
            self._on_stats(message.stats, message.explanation)
            self._hold(message.held)
        else:
            self._on_end(message)
        if now - self._measured >= _MEMORY_SECONDS:
            self.memory, self.others, self._measured = self._measure_memory(), self._measure_others(), now

    @property
    def stats(self) -> Snapshot:
        """Counts and rates of the answer."""
        return self._stats.snapshot()

    @property
    def rate_now(self) -> float | None:
        """Tokens a second in the last two seconds, by the clock; None: no answer runs, or only its first round did."""
        if not self.running or len(self._recent) < 2:
            return None
        (before, start), (emitted, end) = self._recent[0], self._recent[-1]
        return (emitted - before) / (end - start) if end > start else None

    @property
    def speed_up(self) -> float | None:
        """Time that plain decoding would have taken over the time the answer took; None: nothing to compare."""
        taken = self._compared.seconds
        return self._compared.plain_seconds / taken if taken > 0 else None

    @property
    def session_speed_up(self) -> float | None:
        """Speed-up over all answers since the models were loaded."""
        seconds = self._compared.seconds + self._past_seconds
        plain = self._compared.plain_seconds + self._past_plain_seconds
        return plain / seconds if seconds > 0 else None

    @property
    def answers(self) -> int:
        """Number of answers in `session_speed_up`."""
        return self._answers + (self._compared.seconds > 0)

    @property
    def positions(self) -> Iterator[tuple[int, int]]:
        """Accepted and drafted tokens at each place of a draft, from the first."""
        return zip(self._stats.accepted_at, self._stats.drafted_at, strict=True)

    @property
    def time_split(self) -> TimeSplit | None:
        """Shares of the rounds' time; None before the first."""
        stats = self._stats
        if stats.seconds <= 0:
            return None
        parts = (stats.draft_seconds, stats.verify_seconds, stats.host_seconds)
        return TimeSplit(*(part / stats.seconds for part in parts))

    @property
    def leaderboard(self) -> list[SourceTally]:
        """Drafters that drafted since the models were loaded, the largest gain first."""
        return sorted(self._tallies.values(), key=lambda tally: (-tally.gained, tally.name))

    @property
    def pauses(self) -> list[Pause]:
        """Paused drafters, each with its reason."""
        return pauses(self.explanation) if self.explanation else []

    @property
    def length_reason(self) -> str:
        """Reason for the length of the last draft; "" before the first round."""
        return length_reason(self.explanation, self.last.draft.size) if self.last else ""

    @property
    def context_share(self) -> float | None:
        """Used over all tokens of the context."""
        return self.context_used / self.context_size if self.context_size else None

    def _on_round(self, round_: Round) -> None:
        (self._compared.observe if self._stats.rounds else self._compared.begin)(round_)
        self._stats.observe(round_)
        self.running, self.reading, self.last = True, None, round_
        self._hold(round_.prefix_length + len(round_.emitted))
        self.origins.update(origins(round_))
        self.beats.append(Beat(len(round_.emitted), round_.draft.size, round_.accepted))
        if round_.draft.tokens:
            self._tally(round_)
        self._count_now()

    def _hold(self, tokens: int) -> None:
        # The token that ends an answer in a full context has no room in it, and needs none.
        self.context_used = min(tokens, self.context_size) if self.context_size else tokens

    def _tally(self, round_: Round) -> None:
        source = round_.draft.source
        tally = self._tallies.setdefault(source, SourceTally(source))
        tally.drafts += 1
        tally.drafted += round_.draft.size
        tally.accepted += round_.accepted
        tally.gained += len(round_.emitted) - 1

    def _count_now(self) -> None:
        recent = self._recent
        recent.append((self._stats.emitted, self._stats.seconds + self._stats.wait_seconds))
        while len(recent) > 2 and recent[-1][1] - recent[1][1] >= NOW_SECONDS:
            recent.popleft()

    def _on_stats(self, stats: Snapshot, explanation: Explanation | None) -> None:
        mine = self._stats
        mine.prompt_tokens, mine.reused_tokens = stats.prompt_tokens, stats.reused_tokens
        mine.prompt_seconds, mine.first_token_seconds = stats.prompt_seconds, stats.first_token_seconds
        if explanation is not None:
            self.explanation = explanation
            self._compared.measured_cost(1 / explanation.plain_rate)

    def _on_end(self, ended: Ended) -> None:
        self._on_stats(ended.stats, ended.explanation)
        self.finish, self.accept, self.drafter = ended.finish, ended.accept, ended.drafter
        self.running, self.reading = False, None

    def _keep(self) -> None:
        """Add the time of the last answer to that of those before."""
        self._answers += self._compared.seconds > 0
        self._past_seconds += self._compared.seconds
        self._past_plain_seconds += self._compared.plain_seconds
