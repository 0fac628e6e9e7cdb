"""One answer on its way: its rounds as messages for listeners, its early end, and its last report."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import inf

from app.engine.conversation.drafting import Drafting
from app.engine.conversation.early_stop import EarlyStop
from app.engine.conversation.messages import Ended, Message, PromptScored, Said, Watched
from app.engine.conversation.round_history import RoundHistory
from app.engine.conversation.session import Reading, Scored, Session
from app.engine.decoding.ending import Ending, Finish
from app.engine.decoding.logprobs import places
from app.engine.decoding.request import Question
from app.engine.decoding.round import Clock, Round
from app.engine.decoding.shared_pass import Pass
from models.errors import Cancelled
from models.sampling.sampler import Sampler

WATCH_SECONDS = 0.4
"""Seconds between two reports on an answer that is watched."""
Events = Generator[Reading | Scored | Pass | Round]
"""Events of a session for an answer."""


@dataclass(frozen=True, slots=True)
class AnswerStart:
    """Everything that an answer is made from, settled before its first pass."""

    question: Question
    prompt: Sequence[int]
    """Token ids of the whole prompt."""
    sampler: Sampler
    ending: Ending
    in_conversation: bool
    """Whether prompt and answer belong to the conversation of the slot; False for an infill and for a given prompt."""
    left_out: int = 0
    """Oldest messages that had no room in the context."""


class AnswerRun:
    """One answer: hands on what its session yields, and reports on it.

    Call order: `messages` to its end, `complete_text`, `reports`.
    """

    def __init__(
        self, start: AnswerStart, session: Session, drafting: Drafting, history: RoundHistory, clock: Clock
    ) -> None:
        """Take the session that decodes, its drafter for reports, and the history that keeps rounds to walk through."""
        self._start = start
        self._session = session
        self._drafting = drafting
        self._history = history
        self._clock = clock
        self._early_stop = EarlyStop(start.question, clock)
        self._pieces: list[str] = []
        self._finish = Finish.CANCELLED
        self._next_report = inf
        """Time of the next `Watched`; infinite for an answer that is not watched."""
        history.begin(start.sampler)

    def messages(self, events: Events) -> Iterator[Message | Pass]:
        """Yield the events as messages, passes unchanged, until the answer ends, is cut short or is cancelled."""
        self._next_report = self._clock() if self._start.question.watch else inf
        try:
            with closing(events):
                yield from self._messages_of(events)
        except Cancelled:
            self._finish = Finish.CANCELLED

    def complete_text(self) -> tuple[str, str]:
        """Return the characters that were held back until now, and the whole answer."""
        text = self._start.ending.text
        text.finish()
        rest = text.take()
        return rest, "".join(self._pieces) + rest

    def reports(self, rest: str, answer: str) -> Iterator[Message]:
        """Yield the last messages of an answer; takes what `complete_text` returned."""
        session, question = self._session, self._start.question
        explanation = self._drafting.explanation(adapts=question.adapt) if question.explain else None
        if question.watch:
            yield self._watched()
        rule, left_out = self._start.sampler.accept, self._start.left_out
        stats, drafter = session.stats.snapshot(), session.drafter.name
        stop = self._start.ending.text.stopped_by or ""
        yield Ended(rest, answer, self._finish, stats, drafter, rule, explanation, left_out, stop)

    def _messages_of(self, events: Events) -> Iterator[Message | Pass]:
        for event in events:
            if isinstance(event, Pass):
                yield event
                continue
            yield self._message(event)
            if isinstance(event, Round) and self._is_cut_short(event):
                return
            if self._next_report < inf and (now := self._clock()) >= self._next_report:
                self._next_report = now + WATCH_SECONDS
                yield self._watched()
        # With no token wanted the prompt was to be read, and was.
        self._finish = Finish.LENGTH if self._start.question.max_tokens == 0 else self._finish

    def _message(self, event: Reading | Scored | Round) -> Message:
        if isinstance(event, Scored):
            return PromptScored(places(event.likelihoods, self._session.target.vocab, ends=True))
        return event if isinstance(event, Reading) else self._round_message(event)

    def _is_cut_short(self, round_: Round) -> bool:
        """Take the end of a round; tell whether the answer ends here though its rounds would go on."""
        self._finish = round_.finish or self._finish
        early = self._early_stop.reached(self._pieces) if round_.finish is None else None
        self._finish = early or self._finish
        return early is not None

    def _round_message(self, round_: Round) -> Said:
        self._history.observe(round_)
        text, vocab = self._start.ending.text, self._session.target.vocab
        opening = b"" if self._pieces else text.opening.encode()
        self._pieces.append(text.take())
        lengths = text.take_lengths()
        first, *others = map(vocab.piece, round_.emitted)
        return Said(
            self._pieces[-1],
            round_,
            lengths + (0,) * (len(round_.emitted) - len(lengths)),
            (opening + first, *others),
            tuple(map(vocab.piece, round_.draft.checked)),
            places(round_.likelihoods, vocab),
        )

    def _watched(self) -> Watched:
        session = self._session
        explanation = self._drafting.explanation(adapts=self._start.question.adapt)
        return Watched(session.stats.snapshot(), explanation, len(session.tokens))
