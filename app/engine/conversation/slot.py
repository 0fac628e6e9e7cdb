"""One conversation in the caches of target and drafter: a prompt that begins like the last text is not read again."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings
from app.engine.control.shared_control import BatchingController, SharedBatch
from app.engine.conversation.answer_run import AnswerRun, AnswerStart, Events
from app.engine.conversation.drafting import Drafting
from app.engine.conversation.kept_states import LEAST, reopen
from app.engine.conversation.messages import Explained, Message
from app.engine.conversation.pause_reading import read_in_pause
from app.engine.conversation.round_history import RoundHistory
from app.engine.conversation.session import Session
from app.engine.conversation.transcript import Transcript
from app.engine.costs.usable_width import usable_width
from app.engine.decoding.controller import Controller, FixedLength
from app.engine.decoding.grammar import ending_of, state_of
from app.engine.decoding.request import Question
from app.engine.decoding.round import Clock
from app.engine.decoding.shared_pass import Pass
from drafters.base import hand_messages
from drafters.hybrid import Eager, Hybrid
from models.base import Companion, LanguageModel, common_prefix
from models.forms.preface import NO_PREFACE
from models.sampling.sampler import Sampler
from models.states.folder import StateFolder
from models.text.fim import FimFormat, no_fim
from models.text.prompts import Message as Turn
from models.text.thoughts import Effort
from models.text.tool_calls import Tool

_EAGER = Eager()
FIXED_LENGTH = 3
"""Draft length, in tokens, without adapting and without `--draft-max`."""
_ALIKE = 0.25
"""Share of a prompt that a cache must hold already to choose its slot for that, and not the slot unused longest."""
_ROOM_TO_FILL = 512
"""Tokens that an infill prompt leaves free for the answer, at least, in a context of twice as many."""


class Fitness(NamedTuple):
    """Fit of a question to a slot; compared field by field in this order, larger is better.

    First comes a slot that holds much of the prompt, then an unused one, then one with the same purpose: completions
    keep out of the caches of conversations, and conversations out of those of completions.
    """

    reused_tokens: int
    """Prompt tokens in the cache; 0 where they are few, as with a common system prompt: the cache then stays."""
    unused: bool
    same_purpose: bool
    shares_passes: bool
    """Whether its passes can be one with those of a running answer."""


class Slot:
    """The caches of a target and its drafter, and the conversation in them."""

    def __init__(self, target: LanguageModel, drafting: Drafting, transcript: Transcript, clock: Clock) -> None:
        """Take a loaded target, its drafter and the transcript of its conversation; owns the first two."""
        self.session = Session(target, drafting.drafter, clock)
        self.transcript = transcript
        self.busy = False
        """Whether an answer is running."""
        self.shared_batch: SharedBatch | None = None
        """The slots whose passes can be one with those of this slot; None: there are none."""
        self._drafting = drafting
        self._clock = clock
        self._recent = RoundHistory()
        self._predicted = ""
        self._fim = FimFormat.of(target.vocab)
        self._last: str | None = None
        """Purpose of the last question; None: there was none."""

    @property
    def target(self) -> LanguageModel:
        """The target of this slot."""
        return self.session.target

    @property
    def _text(self) -> Companion:
        """The target, as one of the texts of its cache: every model that a loader opens is one."""
        return cast("Companion", self.target)

    @property
    def drafting(self) -> Drafting:
        """The drafter and its controller."""
        return self._drafting

    def use(self, drafting: Drafting) -> None:
        """Change the drafter; the last one is freed."""
        self._drafting.leave()
        self.session.drafter, self._drafting = drafting.drafter, drafting
        self._predicted = ""

    def given(self, question: Question) -> list[int] | None:
        """Return the prompt of an infill or of given tokens, for this slot and its twins; None for a conversation.

        Raises LocalspecError for an infill that the model can't do.
        """
        if question.infill is not None:
            return self._infill_prompt(question)
        return list(question.tokens) or None

    def fitness(self, question: Question, given: Sequence[int] | None, busy: Iterable["Slot"]) -> Fitness:
        """Return how well a question fits this slot beside the busy ones; `given` as `given()` returns it."""
        prompt = self.transcript.preview(*_prompt_parts(question, question.turns)) if given is None else given
        shared = common_prefix(self.session.tokens[: self.target.length], prompt)
        return Fitness(
            reused_tokens=shared if shared > len(prompt) * _ALIKE else 0,
            unused=self._last is None,
            same_purpose=self._last == _purpose(question),
            shares_passes=self.is_beside(busy),
        )

    def count(self, question: Question) -> int:
        """Return the number of tokens of a conversation's prompt; nothing is read. Raises LocalspecError."""
        return len(self.transcript.preview(*_prompt_parts(question, question.turns)))

    def is_beside(self, slots: Iterable["Slot"]) -> bool:
        """Tell whether a pass of this slot and one of another among these can be one."""
        return any(self._text.can_join(slot.target) for slot in slots)

    def answer(self, question: Question, given: Sequence[int] | None, urgency: int = 0) -> Iterator[Message | Pass]:
        """Answer a question whose prompt is `given`, or a conversation; an answer that is stopped stays in the cache.

        A pass that can be shared with equally urgent answers is yielded before it is made; a consumer that ignores it
        lets it be made alone.
        """
        self.busy = True
        try:
            start = self._start(question, given)
            run = AnswerRun(start, self.session, self._drafting, self._recent, self._clock)
            yield from run.messages(self._events(start, urgency))
            rest, text = run.complete_text()
            if start.in_conversation:
                self.transcript.keep(text, self.session.tokens[len(start.prompt) :])
            yield from run.reports(rest, text)
            self._remember_answer(start)
        finally:
            self.busy = False
            if self.shared_batch is not None:
                self.shared_batch.leave(self.target)

    def _start(self, question: Question, given: Sequence[int] | None) -> AnswerStart:
        turns = self.transcript.kept(question, self.target.context_size) if given is None else question.turns
        prompt = self.transcript.prompt(*_prompt_parts(question, turns)) if given is None else given
        self._last = _purpose(question)
        self._learn(question.prediction)
        hand_messages(self._drafting.drafter, turns if given is None and not question.raw else ())
        preface = NO_PREFACE if given is not None else self.transcript.preface(question.raw, question.effort)
        grammar = state_of(question.grammar, self.target.vocab, len(prompt), preface)
        sampler = Sampler(question.sampling, question.accept, question.listed, grammar)
        ending = ending_of(question, self.target.vocab, preface, sampler)
        return AnswerStart(question, prompt, sampler, ending, given is None, len(question.turns) - len(turns))

    def _events(self, start: AnswerStart, urgency: int) -> Events:
        if start.question.max_tokens == 0:
            yield from self.session.read(start.prompt, start.question.scores)
        else:
            controller = self._controller(start.question, urgency)
            yield from self.session.answer(start.prompt, start.sampler, start.ending, controller, start.question.scores)

    def _remember_answer(self, start: AnswerStart) -> None:
        """Store prompt and answer of a conversation for later runs."""
        memory, tokens = self._drafting.memory, self.session.tokens
        if memory is not None and start.in_conversation and len(tokens) > len(start.prompt):
            memory.keep(tokens, len(start.prompt))

    def read_in_pause(self) -> None:
        """Let the draft models read the last answer; raises Cancelled for a more urgent job."""
        read_in_pause(self.session, self._drafting)

    def explain(self, settings: Question) -> Iterator[Message]:
        """Yield what drafting costs and gains here, and the draft length that follows from it.

        `settings` are those of the next answer: the last one may have had others, or there was none.
        """
        adaptive = self._drafting.adaptive
        allowed = None if adaptive is None else self._settings(adaptive, settings)
        yield Explained(self._drafting.explanation(allowed, adapts=settings.adapt))

    def walk(self, back: int | None) -> Iterator[Message]:
        """Yield how a round of the last answer was verified; 1: the last that drafted, None: the most instructive."""
        exact = self._drafting.exact_draft
        yield self._recent.walk(self.session, back, 1 if exact is None else exact + 1)

    def recall(self, conversation: Question, spelled: Sequence[Sequence[int]]) -> None:
        """Take the tokens in which the answers of a conversation were generated, in an earlier run."""
        self.transcript.recall(conversation.turns, spelled, raw=conversation.raw, special=conversation.special)

    def held(self, conversation: Question) -> int:
        """Return the tokens that a conversation takes in the context, without messages that have no room in it.

        Raises LocalspecError where the chat template refuses the conversation.
        """
        turns = self.transcript.kept(conversation, self.target.context_size)
        return len(self.transcript.preview(*_prompt_parts(conversation, turns)))

    def reopen(self, conversation: Question, key: str, folder: StateFolder) -> None:
        """Take the cache of a conversation from disk, as far as it is there; a short text is read as quickly."""
        turns = self.transcript.kept(conversation, self.target.context_size)
        tokens = self.transcript.preview(*_prompt_parts(conversation, turns)) if turns else ()
        if len(tokens) >= LEAST:
            reopen(self.session, tokens, key, folder)

    def remember(self) -> None:
        """Let the drafter learn the stored texts of earlier runs."""
        memory, recall = self._drafting.memory, self._drafting.recall
        if memory is not None and recall is not None:
            for text in memory.texts():
                recall.learn(text)

    def close(self) -> None:
        """Free both caches."""
        self._drafting.leave()
        self.session.target.close()

    def _infill_prompt(self, question: Question) -> list[int]:
        """Return the tokens of an infill prompt; raises LocalspecError for a model that can't fill in."""
        if self._fim is None or question.infill is None:
            raise no_fim(self.target.name)
        size = self.target.context_size
        # One room for all short answers: a prompt that is cut at another place shares no prefix with the cache.
        return self._fim.prompt(question.infill, size - min(max(question.max_tokens or 0, _ROOM_TO_FILL), size // 2))

    def _controller(self, question: Question, urgency: int) -> Controller:
        """Return the controller of draft lengths, and of shared passes where there are any."""
        controller, shared_batch = self._configured(question), self.shared_batch
        # A fixed draft length holds whatever other answers do.
        if shared_batch is None or not (isinstance(controller, AdaptiveController) or controller.plan().limit == 0):
            return controller
        widest = usable_width(shared_batch.exact, self.target.max_rows, allow_rounding=question.allow_rounding)
        return BatchingController(controller, shared_batch, urgency, self._text, widest)

    def _configured(self, question: Question) -> AdaptiveController | FixedLength:
        """Return the controller of a question, with its settings within the exact width of this machine."""
        adaptive = self._drafting.adaptive
        if adaptive is None:
            return FixedLength(0)
        settings = self._settings(adaptive, question)
        adaptive.use(settings)
        if isinstance(self._drafting.drafter, Hybrid):
            self._drafting.drafter.use(adaptive if question.adapt else _EAGER)
        return adaptive if question.adapt else FixedLength(settings.max_draft, branches=settings.max_siblings)

    def _settings(self, adaptive: AdaptiveController, question: Question) -> AnswerSettings:
        exact = self._drafting.exact_branches or not self._drafting.exact_draft or question.allow_rounding
        return replace(
            adaptive.settings,
            max_draft=self._longest(question),
            max_siblings=self.target.max_branches if exact and question.accept.takes_siblings else 0,
            infill=question.infill is not None,
        )

    def _learn(self, prediction: str) -> None:
        """Let the drafter copy from a predicted answer; each text once."""
        drafter = self._drafting.drafter
        if prediction and prediction != self._predicted and isinstance(drafter, Hybrid):
            drafter.learn(self.target.vocab.tokenize(prediction, special=False))
            self._predicted = prediction

    def _longest(self, question: Question) -> int:
        exact, wanted = self._drafting.exact_draft, question.draft_length
        if wanted is None:
            wanted = self.target.max_rows - 1 if question.adapt else FIXED_LENGTH
        return wanted if question.allow_rounding or not exact else min(wanted, exact)


def _prompt_parts(
    question: Question, turns: Sequence[Turn]
) -> tuple[Sequence[Turn], bool, Effort, Sequence[Tool], bool]:
    """Return all that the prompt of a conversation depends on, for these of its turns."""
    return turns, question.raw, question.effort, question.tools, question.special


def _purpose(question: Question) -> str:
    return "chat" if question.infill is None else "completion"
