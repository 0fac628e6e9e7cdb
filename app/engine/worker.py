"""What the engine can do, as iterators of messages. It owns the models, so it runs on the engine's one thread."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from app.engine.control import Controller, FixedLength
from app.engine.ending import Ending, Finish
from app.engine.explain import Explanation, explain
from app.engine.load import Guessing, Loader, LoadPlan, Progress
from app.engine.messages import Ended, Explained, Message, Ready, Said, Walked, Watched
from app.engine.recent import RecentRounds
from app.engine.session import Reading, Session
from app.engine.speculate import Clock, Round
from app.engine.transcript import Transcript
from drafters.base import NullDrafter
from drafters.hybrid import Eager, Hybrid
from drafters.registry import DrafterSpec
from models.abort import AbortFlag
from models.accept import Accept
from models.base import LanguageModel
from models.errors import Cancelled
from models.prompts import Message as Turn
from models.sampling import Sampler, SamplingParams

_EAGER = Eager()
_WITH_SIBLINGS = (Accept.COUPLED, Accept.RESIDUAL)
"""Rules that know what to do with a second guess."""
WATCH_SECONDS = 0.4
"""Time between two reports to who watches an answer."""
FIXED_LENGTH = 3
"""Draft length of those who want no adapting and name none."""


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation that wants its next answer."""

    turns: tuple[Turn, ...]
    sampling: SamplingParams
    raw: bool = False
    """Send the bare text, without the model's chat template."""
    stops: tuple[str, ...] = ()
    """Strings that end the answer and are not part of it."""
    max_tokens: int | None = None
    """None: until the model ends it, or the context is full."""
    draft_length: int | None = None
    """Most tokens to guess in a round; None: as many as pay, or 3 without adapting."""
    adapt: bool = True
    """Guess when and as long as it pays; else always `draft_length`."""
    prediction: str = ""
    """A text like the answer that is expected: guesses may be taken from it."""
    explain: bool = False
    """Tell in the end what drafting cost here, and what came of it."""
    watch: bool = False
    """Tell how it goes, from time to time and in the end."""
    accept: Accept = Accept.COUPLED
    """How drafts are judged."""
    allow_rounding: bool = False
    """Draft longer than this machine's arithmetic is exact for: a near-tie may then fall the other way."""


class Worker:
    """A loaded target, its drafter, and one conversation in their caches."""

    def __init__(self, plan: LoadPlan, abort: AbortFlag, clock: Clock) -> None:
        self._plan = plan
        self._abort = abort
        self._clock = clock
        self._session: Session | None = None
        self._guessing = Guessing(NullDrafter())
        self._recent = RecentRounds()
        self._predicted = ""

    def load(self, on_progress: Progress, plan: LoadPlan | None = None) -> Iterator[Message]:
        """Load what a plan names, at first the one given at the start; if it fails, what was loaded before stays."""
        plan = plan or self._plan
        loader = Loader(plan, self._abort, self._clock, on_progress)
        target = loader.target()
        try:
            transcript = Transcript(target)
            guessing = loader.guessing(plan.drafter, target)
        except BaseException:
            target.close()
            raise
        self.close()
        self._plan, self._transcript, self._guessing = plan, transcript, guessing
        self._session = Session(target, guessing.drafter, self._clock)
        self._recent, self._predicted = RecentRounds(), ""
        if not transcript.has_template:
            loader.notes.append(f"{target.name} has no chat template: your text is sent as it is.")
        yield self._ready(target, tuple(loader.notes))
        self._recall()

    def use_drafter(self, spec: DrafterSpec, on_progress: Progress) -> Iterator[Message]:
        """Change the drafter; one that can't be used leaves the old one in place."""
        session = self._loaded()
        loader = Loader(replace(self._plan, drafter=spec), self._abort, self._clock, on_progress)
        guessing = loader.guessing(spec, session.target)
        session.drafter.close()
        session.drafter, self._guessing, self._plan = guessing.drafter, guessing, replace(self._plan, drafter=spec)
        self._predicted = ""
        yield self._ready(session.target, tuple(loader.notes))
        self._recall()

    def explain(self, *, adapts: bool) -> Iterator[Message]:
        """Tell what drafting costs here, what came of it, and what is decided therefore, if anything is (`adapts`)."""
        yield Explained(self._explanation(adapts=adapts))

    def walk(self, back: int | None) -> Iterator[Message]:
        """Tell how a round of the last answer was judged, the last that drafted being 1; None: what shows most."""
        exact = self._guessing.exact_draft
        told = self._recent.walk(self._loaded(), back, 1 if exact is None else exact + 1)
        yield Walked(None, told) if isinstance(told, str) else Walked(told)

    def recall(self, conversation: Question, spelled: Sequence[Sequence[int]]) -> Iterator[Message]:
        """Remember in which tokens the answers of a conversation were given, in a run before this one."""
        self._transcript.recall(conversation.turns, spelled, raw=conversation.raw)
        yield from ()

    def answer(self, question: Question) -> Iterator[Message]:
        """Answer a question; stopped half-way, it ends in order, and what was said stays said."""
        session = self._loaded()
        prompt = self._transcript.prompt(question.turns, raw=question.raw)
        self._learn(question.prediction)
        ending = Ending(session.target.vocab, stops=question.stops, budget=question.max_tokens)
        sampler = Sampler(question.sampling, question.accept)
        self._recent.begin(sampler)
        rounds = session.answer(prompt, sampler, ending, self._controller(question))
        answer: list[str] = []
        finish = Finish.CANCELLED
        due = self._clock() if question.watch else inf
        try:
            for event in rounds:
                yield self._tell(event, ending, answer)
                if isinstance(event, Round) and event.finish is not None:
                    finish = event.finish
                if due < inf and (now := self._clock()) >= due:
                    due = now + WATCH_SECONDS
                    yield self._watched(question)
        except Cancelled:
            finish = Finish.CANCELLED
        ending.text.finish()
        rest = ending.text.take()
        text = "".join([*answer, rest])
        self._transcript.keep(text, session.tokens[len(prompt) :])
        explanation = self._explanation(adapts=question.adapt) if question.explain else None
        if question.watch:
            yield self._watched(question)
        yield Ended(rest, text, finish, session.stats.snapshot(), session.drafter.name, sampler.accept, explanation)
        if self._guessing.memory is not None:
            self._guessing.memory.keep(session.tokens, len(prompt))

    def close(self) -> None:
        """Free the models."""
        if self._session is not None:
            self._session.drafter.close()
            self._session.target.close()
            self._session = None

    def _controller(self, question: Question) -> Controller:
        """Return who decides in this answer, within what this machine is exact for."""
        adaptive = self._guessing.adaptive
        if adaptive is None:
            return FixedLength(0)
        adaptive.longest = self._longest(question)
        adaptive.branches = self._loaded().target.max_branches if question.accept in _WITH_SIBLINGS else 0
        if isinstance(self._guessing.drafter, Hybrid):
            self._guessing.drafter.appraiser = adaptive if question.adapt else _EAGER
        return adaptive if question.adapt else FixedLength(adaptive.longest)

    def _learn(self, prediction: str) -> None:
        """Let the drafter copy from an expected answer; each text once."""
        drafter = self._guessing.drafter
        if prediction and prediction != self._predicted and isinstance(drafter, Hybrid):
            drafter.learn(self._loaded().target.vocab.tokenize(prediction, special=False))
            self._predicted = prediction

    def _recall(self) -> None:
        """Learn what was said in earlier runs; after the load was told, for then the user types."""
        memory, recall = self._guessing.memory, self._guessing.recall
        if memory is not None and recall is not None:
            for text in memory.texts():
                recall.learn(text)

    def _longest(self, question: Question) -> int:
        wanted = question.draft_length
        if wanted is None:
            wanted = self._loaded().target.max_rows - 1 if question.adapt else FIXED_LENGTH
        exact = self._guessing.exact_draft
        return wanted if question.allow_rounding or not exact else min(wanted, exact)

    def _explanation(self, *, adapts: bool) -> Explanation | None:
        return explain(self._guessing.adaptive, adapts=adapts) if self._guessing.adaptive else None

    def _tell(self, event: Reading | Round, ending: Ending, answer: list[str]) -> Message:
        if isinstance(event, Reading):
            return event
        self._recent.observe(event)
        answer.append(ending.text.take())
        lengths = ending.text.take_lengths()
        piece = self._loaded().target.vocab.piece
        return Said(
            answer[-1],
            event,
            lengths + (0,) * (len(event.emitted) - len(lengths)),
            tuple(map(piece, event.emitted)),
            tuple(map(piece, event.draft.checked)),
        )

    def _watched(self, question: Question) -> Watched:
        session = self._loaded()
        return Watched(session.stats.snapshot(), self._explanation(adapts=question.adapt), len(session.tokens))

    def _loaded(self) -> Session:
        assert self._session is not None, "the first job loads the models"
        return self._session

    def _ready(self, target: LanguageModel, notes: tuple[str, ...]) -> Ready:
        drafter = self._guessing.drafter.name
        return Ready(target.name, target.description, drafter, target.context_size, self._guessing.exact_draft, notes)
