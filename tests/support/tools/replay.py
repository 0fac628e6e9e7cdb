"""Recorded answers, played back through the real engine in virtual time: a controller is judged in seconds.

The target says what it said when it was recorded; the draft model guesses what it guessed then, as sure as it was. A
pass takes what a cost curve says, on a clock that nothing else moves; drafters, controller and rounds are real.
"""

import gzip
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.engine.conversation.session import Session
from app.engine.decoding.controller import Controller
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Round
from app.engine.decoding.stats import Snapshot
from drafters.base import Drafter
from models.base import AddedToken, Logits, RewindSupport
from models.sampling.sampler import Sampler, SamplingParams

_WINDOWS, _LEFT = (9, 17, 33, 65), (0.35, 0.57, 0.75, 0.87, 0.95)
"""Share of a draft model's right guesses that are left with so many of the last tokens: under 9, 17, ..."""
_COPIED = {"code": 0.2, "edit": 0.25, "rag": 0.28, "summarize": 0.65}
"""Share that is lost besides where the answer copies what is further up, by class.

Both measured on Qwen2.5-Coder 0.5B (IQ4_NL) for 1.5B, 108 greedy answers of nine classes, windows of 1 to 128 tokens.
"""
_GRID, _RIVALS = 64, 63
"""Rivals of a guess have ids of their own, which `models.sampling.sampler.share` counts one by one: it sees what was
sure."""
_NEVER = -1e4
Cost = Callable[[int, int], float]
"""Seconds of a pass over (width, depth) tokens."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A prompt, the target's answer, and what the draft model would have said at each of its places."""

    name: str
    kind: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    proposal: tuple[int, ...]
    sure: tuple[float, ...]
    size: int
    """Ids run from 0 to size - 1."""


def load(path: Path, temperature: float) -> list[Trace]:
    """Read the traces of one temperature, with ids renumbered so that rows stay small."""
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    return [_trace(record) for record in records if record["t"] == temperature]


def _trace(record: dict) -> Trace:
    known: dict[int, int] = {}
    renumbered = [
        tuple(known.setdefault(token, len(known)) for token in record[field]) for field in ("prompt", "answer", "guess")
    ]
    return Trace(record["id"], record["class"], *renumbered, sure=tuple(record["sure"]), size=len(known))


class VirtualClock:
    """Seconds that pass only when the replay says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _Vocab:
    kind = "bpe"
    bos = None

    def __init__(self, size: int) -> None:
        self.size = size

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:  # noqa: ARG002
        return []

    def added_tokens(self) -> Sequence[AddedToken]:
        return ()

    def piece(self, token: int) -> bytes:
        return b"%d " % token

    def text(self, token: int) -> str:
        return str(token)

    def is_end(self, token: int) -> bool:  # noqa: ARG002
        return False

    def is_padding(self, token: int) -> bool:  # noqa: ARG002
        return False

    def special(self, role: str) -> str:  # noqa: ARG002
        return ""


class ReplayModel:
    """Says `said[i]` after the first `i + 1` tokens of a text, and anything elsewhere."""

    chat_template = None
    named_templates: Mapping[str, str] = {}
    context_size = 1 << 20
    batch_size = 64
    max_rows = 64
    rewind_support = RewindSupport(None, "recorded")

    def __init__(self, name: str, trace: Trace, cost: Cost, clock: VirtualClock) -> None:
        self.name = self.description = name
        self._tokens = trace.size
        self.vocab = _Vocab(-(-trace.size // _GRID) * _GRID + _RIVALS)
        self.length = 0
        self._said: Sequence[int] = (0,) * (len(trace.prompt) - 1) + trace.answer
        self._sure: Sequence[float] = (1.0,) * len(self._said)
        self._cost = cost
        self._clock = clock
        self.skipped: Callable[[], int] = lambda: 0
        """Tokens of the text that its reader left out: places in the cache are that many short of those in the text."""
        self._copied = 0.0

    @classmethod
    def draft(cls, trace: Trace, cost: Cost, clock: VirtualClock) -> "ReplayModel":
        """Return the draft model of a trace."""
        model = cls("draft", trace, cost, clock)
        model._said = (0,) * (len(trace.prompt) - 1) + trace.proposal
        model._sure = (1.0,) * (len(trace.prompt) - 1) + trace.sure
        model._copied = _COPIED.get(trace.kind, 0.0)
        return model

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:  # noqa: ARG002
        self._clock.now += self._cost(len(tokens), self.length)
        self.length += len(tokens)
        result = np.full((rows, self.vocab.size), _NEVER, dtype=np.float32)
        skipped = self.skipped()
        for row, seen in zip(result, range(self.length - rows, self.length), strict=True):
            if (place := seen + skipped) < len(self._said):
                self._fill(row, place, lost=skipped > 0 and place * 0.618034 % 1 > self._kept(seen + 1))
        return result

    def _kept(self, seen: int) -> float:
        """Return the share of right guesses that stay right with the last `seen` tokens alone."""
        return _LEFT[bisect_right(_WINDOWS, seen)] * (1 - self._copied)

    def _fill(self, row: Logits, place: int, lost: bool) -> None:
        sure = min(max(self._sure[place], 1 / _RIVALS), 0.9999) * (0.5 if lost else 1)
        token = (self._said[place] + lost) % self._tokens
        row[token] = np.log(sure)
        # The rest goes to as many rivals as it takes for none of them to be likelier.
        rivals = min(_RIVALS, int(1 / sure))
        row[-rivals:] = np.log((1 - sure) / rivals)

    def can_rewind(self, length: int) -> bool:  # noqa: ARG002
        return True

    def rewind(self, length: int) -> None:
        assert length <= self.length
        self.length = length

    def close(self) -> None:
        pass


Arm = Callable[[ReplayModel, ReplayModel], tuple[Drafter, Controller]]
"""Makes the drafter and the controller of one run from target and draft model."""


@dataclass(frozen=True, slots=True)
class Played:
    """An answer played back."""

    trace: Trace
    seconds: float
    plain_seconds: float
    stats: Snapshot
    rounds: tuple[Round, ...]

    @property
    def speedup(self) -> float:
        """Against plain decoding on the same curve."""
        return self.plain_seconds / self.seconds


def play(trace: Trace, arm: Arm, cost: Cost, draft_cost: Cost) -> Played:
    """Answer a recorded prompt, the prompt's reading not counted, and check that the text is the recorded one."""
    clock = VirtualClock()
    target = ReplayModel("target", trace, cost, clock)
    drafter, controller = arm(target, ReplayModel.draft(trace, draft_cost, clock))
    session = Session(target, drafter, clock)
    rounds = list(_rounds(session, trace, controller))
    emitted = [token for round_ in rounds for token in round_.emitted]
    assert emitted == list(trace.answer)
    depth = len(trace.prompt) - 1
    plain = sum(cost(1, depth + place) for place in range(len(trace.answer)))
    return Played(trace, session.stats.seconds, plain, session.stats.snapshot(), tuple(rounds))


def _rounds(session: Session, trace: Trace, controller: Controller) -> Iterator[Round]:
    ending = Ending(session.target.vocab, budget=len(trace.answer))
    events = session.answer(trace.prompt, Sampler(SamplingParams(temperature=0)), ending, controller)
    return (event for event in events if isinstance(event, Round))


def class_speedups(played: Iterable[Played]) -> dict[str, float]:
    """Return plain seconds over seconds, by class of prompt."""
    by_class: dict[str, list[Played]] = {}
    for one in played:
        by_class.setdefault(one.trace.kind, []).append(one)
    return {kind: sum(p.plain_seconds for p in all_) / sum(p.seconds for p in all_) for kind, all_ in by_class.items()}
