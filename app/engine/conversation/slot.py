"""One conversation in the caches of target and drafter: what was read for it need not be read again."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from math import inf
from typing import cast

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings
from app.engine.control.explain import Explanation, explain
from app.engine.control.shared_control import BatchingController, SharedBatch
from app.engine.conversation.drafting import Drafting
from app.engine.conversation.early_stop import EarlyStop
from app.engine.conversation.fitness import Fitness
from app.engine.conversation.messages import Ended, Explained, Message, Said, Watched
from app.engine.conversation.round_history import RoundHistory
from app.engine.conversation.session import Reading, Session
from app.engine.conversation.transcript import Transcript
from app.engine.costs.usable_width import usable_width
from app.engine.decoding.controller import Controller, FixedLength
from app.engine.decoding.ending import Ending, Finish
from app.engine.decoding.grammar import ending_of, state_of
from app.engine.decoding.logprobs import places
from app.engine.decoding.request import Question
from app.engine.decoding.round import Clock, Round
from app.engine.decoding.shared_pass import Pass
from drafters.hybrid import Eager, Hybrid
from models.base import Companion, LanguageModel, common_prefix
from models.errors import Cancelled
from models.forms.preface import NO_PREFACE, Preface
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler
from models.text.fim import FimFormat, no_fim
from models.text.prompts import Message as Turn
from models.text.thoughts import Effort
from models.text.tool_calls import Tool

_EAGER = Eager()
WATCH_SECONDS = 0.4
"""Time between two reports to who watches an answer."""
FIXED_LENGTH = 3
"""Draft length of those who want no adapting and name none."""
_ALIKE = 0.25
"""Share of a prompt that must be read already for its slot to be worth more than one that was left alone longer."""
_ROOM_TO_FILL = 512
"""Tokens that are left free for what fills a hole, at least, in a context that has them twice."""


class Slot:
    """A target's cache and its drafter's, and what was said in them."""

    def __init__(self, target: LanguageModel, drafting: Drafting, transcript: Transcript, clock: Clock) -> None:
        """Take a loaded target, who guesses for it, and the transcript of its conversation; owns the first two."""
        self.session = Session(target, drafting.drafter, clock)
        self.transcript = transcript
        self.busy = False
        """Whether an answer is being given."""
        self.shared_batch: SharedBatch | None = None
        """Whose passes can be one with those of this slot; None: nobody's."""
        self._drafting = drafting
        self._clock = clock
        self._recent = RoundHistory()
        self._predicted = ""
        self._left_out = 0
        self._rule = Accept.COUPLED
        self._fim = FimFormat.of(target.vocab)
        self._last: str | None = None

    @property
    def target(self) -> LanguageModel:
        """The model that answers."""
        return self.session.target

    @property
    def _text(self) -> Companion:
        """The target, as one of the texts of its cache: what a loader loads is one."""
        return cast("Companion", self.target)

    @property
    def drafting(self) -> Drafting:
        """Who guesses, and who decides when."""
        return self._drafting

    def use(self, drafting: Drafting) -> None:
        """Let somebody else guess."""
        self._drafting.leave()
        self.session.drafter, self._drafting = drafting.drafter, drafting
        self._predicted = ""

    def given(self, question: Question) -> list[int] | None:
        """Return the prompt of a question that is no conversation, on this slot or its twins; None for one that is.

        Raises LocalspecError for a hole that the model can't fill.
        """
        if question.infill is not None:
            return self._infill(question)
        return list(question.tokens) or None

    def fitness(self, question: Question, given: Sequence[int] | None, busy: Iterable["Slot"]) -> Fitness:
        """Return how well a question fits this slot, beside those that are busy. `given`: see there."""
        prompt = self.transcript.preview(*_asked(question, question.turns)) if given is None else given
        shared = common_prefix(self.session.tokens[: self.target.length], prompt)
        return Fitness(
            reused_tokens=shared if shared > len(prompt) * _ALIKE else 0,
            unused=self._last is None,
            same_purpose=self._last == _purpose(question),
            shares_passes=self.is_beside(busy),
        )

    def is_beside(self, slots: Iterable["Slot"]) -> bool:
        """Tell whether a pass of this slot and one of another among these can be one."""
        return any(self._text.can_join(slot.target) for slot in slots)

    def answer(self, question: Question, given: Sequence[int] | None, urgency: int = 0) -> Iterator[Message | Pass]:
        """Answer a question whose prompt is `given`; stopped half-way, it ends in order, and what was said stays said.

        A pass that can be shared, with those that are equally urgent, is yielded before it is done; who does nothing
        with it lets it be done alone.
        """
        self.busy = True
        try:
            yield from self._answer(question, given, urgency)
        finally:
            self.busy = False
            if self.shared_batch is not None:
                self.shared_batch.leave(self.target)

    def _answer(self, question: Question, given: Sequence[int] | None, urgency: int) -> Iterator[Message | Pass]:
        turns = self.transcript.kept(question, self.target.context_size) if given is None else question.turns
        prompt = self.transcript.prompt(*_asked(question, turns)) if given is None else given
        self._left_out = len(question.turns) - len(turns)
        self._last = _purpose(question)
        self._learn(question.prediction)
        opening, preface = self._begun(question) if given is None else ("", NO_PREFACE)
        grammar = state_of(question.grammar, self.target.vocab, len(prompt), preface)
        sampler = Sampler(question.sampling, question.accept, question.listed, grammar)
        ending = ending_of(question, self.target.vocab, opening, sampler)
        self._recent.begin(sampler)
        self._rule = sampler.accept
        answer: list[str] = []
        finish = Finish.CANCELLED
        due = self._clock() if question.watch else inf
        limit = EarlyStop(question, self._clock)
        try:
            with closing(self._events(prompt, sampler, ending, question, urgency)) as events:
                for event in events:
                    if isinstance(event, Pass):
                        yield event
                        continue
                    yield self._tell(event, ending, answer)
                    if isinstance(event, Round):
                        finish = event.finish or finish
                        if event.finish is None and (ended := limit.reached(answer)) is not None:
                            finish = ended
                            break
                    if due < inf and (now := self._clock()) >= due:
                        due = now + WATCH_SECONDS
                        yield self._watched(question)
                else:
                    # Nothing was to be said: the prompt was to be read, and was.
                    finish = Finish.LENGTH if question.max_tokens == 0 else finish
        except Cancelled:
            finish = Finish.CANCELLED
        yield from self._end(question, ending, "".join(answer), finish, len(prompt))

    def _begun(self, question: Question) -> tuple[str, Preface]:
        """Return what the prompt of a conversation began of its answer, and what may come before a grammar's."""
        return self.transcript.opening, self.transcript.preface(question.raw, question.effort)

    def _events(
        self, prompt: Sequence[int], sampler: Sampler, ending: Ending, question: Question, urgency: int
    ) -> Generator[Reading | Pass | Round]:
        if question.max_tokens == 0:
            yield from self.session.read(prompt)
        else:
            yield from self.session.answer(prompt, sampler, ending, self._controller(question, urgency))

    def _end(self, question: Question, ending: Ending, said: str, finish: Finish, asked: int) -> Iterator[Message]:
        session, drafting = self.session, self._drafting
        ending.text.finish()
        rest = ending.text.take()
        text = said + rest
        in_conversation = question.infill is None and not question.tokens
        if in_conversation:
            self.transcript.keep(text, session.tokens[asked:])
        explanation = self._explanation(adapts=question.adapt) if question.explain else None
        if question.watch:
            yield self._watched(question)
        stats, drafter, rule = session.stats.snapshot(), session.drafter.name, self._rule
        yield Ended(rest, text, finish, stats, drafter, rule, explanation, self._left_out)
        if drafting.memory is not None and in_conversation and len(session.tokens) > asked:
            drafting.memory.keep(session.tokens, asked)

    def explain(self, settings: Question) -> Iterator[Message]:
        """Tell what drafting costs here, what came of it, and what is decided therefore, if anything is.

        `settings` are those of the next answer: the last one may have had others, or there was none.
        """
        adaptive = self._drafting.adaptive
        allowed = None if adaptive is None else self._settings(adaptive, settings)
        yield Explained(self._explanation(allowed, adapts=settings.adapt))

    def walk(self, back: int | None) -> Iterator[Message]:
        """Tell how a round of the last answer was judged, the last that drafted being 1; None: what shows most."""
        exact = self._drafting.exact_draft
        yield self._recent.walk(self.session, back, 1 if exact is None else exact + 1)

    def recall(self, conversation: Question, spelled: Sequence[Sequence[int]]) -> None:
        """Remember in which tokens the answers of a conversation were given, in a run before this one."""
        self.transcript.recall(conversation.turns, spelled, raw=conversation.raw, special=conversation.special)

    def remember(self) -> None:
        """Learn what was said in earlier runs."""
        memory, recall = self._drafting.memory, self._drafting.recall
        if memory is not None and recall is not None:
            for text in memory.texts():
                recall.learn(text)

    def close(self) -> None:
        """Free both caches."""
        self._drafting.leave()
        self.session.target.close()

    def _infill(self, question: Question) -> list[int]:
        """Return the tokens that ask for what fills a hole; raises LocalspecError for a model that can't."""
        if self._fim is None or question.infill is None:
            raise no_fim(self.target.name)
        size = self.target.context_size
        # The same for all short ones: a prompt that is cut elsewhere is another prompt.
        return self._fim.prompt(question.infill, size - min(max(question.max_tokens or 0, _ROOM_TO_FILL), size // 2))

    def _controller(self, question: Question, urgency: int) -> Controller:
        """Return who decides in this answer about drafts, and about shared passes where there are any."""
        decides, shared_batch = self._configured(question), self.shared_batch
        # A length that somebody has asked for is drafted whatever others do.
        if shared_batch is None or not (isinstance(decides, AdaptiveController) or decides.plan().limit == 0):
            return decides
        widest = usable_width(shared_batch.exact, self.target.max_rows, allow_rounding=question.allow_rounding)
        return BatchingController(decides, shared_batch, urgency, self._text, widest)

    def _configured(self, question: Question) -> AdaptiveController | FixedLength:
        """Return the controller of a question, with the settings for it and for what this machine is exact for."""
        adaptive = self._drafting.adaptive
        if adaptive is None:
            return FixedLength(0)
        settings = self._settings(adaptive, question)
        adaptive.use(settings)
        if isinstance(self._drafting.drafter, Hybrid):
            self._drafting.drafter.use(adaptive if question.adapt else _EAGER)
        return adaptive if question.adapt else FixedLength(settings.max_draft)

    def _settings(self, adaptive: AdaptiveController, question: Question) -> AnswerSettings:
        exact = self._drafting.exact_branches or not self._drafting.exact_draft or question.allow_rounding
        return replace(
            adaptive.settings,
            max_draft=self._longest(question),
            max_siblings=self.target.max_branches if exact and question.accept.takes_siblings else 0,
            infill=question.infill is not None,
        )

    def _learn(self, prediction: str) -> None:
        """Let the drafter copy from an expected answer; each text once."""
        drafter = self._drafting.drafter
        if prediction and prediction != self._predicted and isinstance(drafter, Hybrid):
            drafter.learn(self.target.vocab.tokenize(prediction, special=False))
            self._predicted = prediction

    def _longest(self, question: Question) -> int:
        exact, wanted = self._drafting.exact_draft, question.draft_length
        if wanted is None:
            wanted = self.target.max_rows - 1 if question.adapt else FIXED_LENGTH
        return wanted if question.allow_rounding or not exact else min(wanted, exact)

    def _explanation(self, settings: AnswerSettings | None = None, *, adapts: bool) -> Explanation | None:
        adaptive, drafter = self._drafting.adaptive, self._drafting.drafter
        failure = drafter.failure if isinstance(drafter, Hybrid) else ""
        return explain(adaptive, settings, adapts=adapts, failure=failure) if adaptive else None

    def _tell(self, event: Reading | Round, ending: Ending, answer: list[str]) -> Message:
        if isinstance(event, Reading):
            return event
        self._recent.observe(event)
        piece, opening = self.target.vocab.piece, b"" if answer else ending.text.opening.encode()
        answer.append(ending.text.take())
        lengths = ending.text.take_lengths()
        first, *others = map(piece, event.emitted)
        return Said(
            answer[-1],
            event,
            lengths + (0,) * (len(event.emitted) - len(lengths)),
            (opening + first, *others),
            tuple(map(piece, event.draft.checked)),
            places(event.likelihoods, self.target.vocab),
        )

    def _watched(self, question: Question) -> Watched:
        session = self.session
        return Watched(session.stats.snapshot(), self._explanation(adapts=question.adapt), len(session.tokens))


def _asked(question: Question, turns: Sequence[Turn]) -> tuple[Sequence[Turn], bool, Effort, Sequence[Tool], bool]:
    """Return what the prompt of a question depends on, for these of its turns."""
    return turns, question.raw, question.effort, question.tools, question.special


def _purpose(question: Question) -> str:
    return "chat" if question.infill is None else "completion"
