"""What the engine can do, as iterators of messages. It owns the models, so it runs on the engine's one thread."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.engine.control import FixedLength
from app.engine.ending import Ending, Finish
from app.engine.load import Loader, LoadPlan, Progress
from app.engine.messages import Ended, Message, Ready, Said
from app.engine.session import Reading, Session
from app.engine.speculate import Clock, Round
from app.engine.transcript import Transcript
from drafters.base import Drafter, NullDrafter
from drafters.registry import DrafterSpec
from models.abort import AbortFlag
from models.base import LanguageModel
from models.errors import Cancelled
from models.prompts import Message as Turn
from models.sampling import Sampler, SamplingParams

_NEVER_EXACT = (
    "This device rounds every pass over several tokens differently from one token at a time, so with drafting a "
    "near-tie between two tokens can fall the other way. For text that is equal to the last bit use --draft off."
)


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
    draft_length: int = 3
    """Most tokens to guess in a round."""
    allow_rounding: bool = False
    """Draft longer than this machine's arithmetic is exact for: a near-tie may then fall the other way."""


class Worker:
    """A loaded target, its drafter, and one conversation in their caches."""

    def __init__(self, plan: LoadPlan, abort: AbortFlag, clock: Clock) -> None:
        self._plan = plan
        self._abort = abort
        self._clock = clock
        self._session: Session | None = None
        self._exact_draft: int | None = None

    def load(self, on_progress: Progress) -> Iterator[Message]:
        """Load the target and the drafter that the plan names."""
        loader = Loader(self._plan, self._abort, on_progress)
        target = loader.target()
        try:
            self._transcript = Transcript(target)
            drafter = loader.drafter(self._plan.drafter, target)
        except BaseException:
            target.close()
            raise
        self._session = Session(target, drafter, self._clock)
        self._exact_draft = self._measured_exactness(loader, target, drafter)
        if not self._transcript.has_template:
            loader.notes.append(f"{target.name} has no chat template: your text is sent as it is.")
        yield self._ready(target, tuple(loader.notes))

    def use_drafter(self, spec: DrafterSpec, on_progress: Progress) -> Iterator[Message]:
        """Change the drafter; one that can't be used leaves the old one in place."""
        session = self._loaded()
        loader = Loader(replace(self._plan, drafter=spec), self._abort, on_progress)
        drafter = loader.drafter(spec, session.target)
        try:
            exact_draft = self._measured_exactness(loader, session.target, drafter)
        except BaseException:
            drafter.close()
            raise
        session.drafter.close()
        session.drafter, self._exact_draft = drafter, exact_draft
        yield self._ready(session.target, tuple(loader.notes))

    def answer(self, question: Question) -> Iterator[Message]:
        """Answer a question; stopped half-way, it ends in order, and what was said stays said."""
        session = self._loaded()
        prompt = self._transcript.prompt(question.turns, raw=question.raw)
        ending = Ending(session.target.vocab, stops=question.stops, budget=question.max_tokens)
        rounds = session.answer(prompt, Sampler(question.sampling), ending, FixedLength(self._length(question)))
        answer: list[str] = []
        finish = Finish.CANCELLED
        try:
            for event in rounds:
                yield self._tell(event, ending, answer)
                if isinstance(event, Round) and event.finish is not None:
                    finish = event.finish
        except Cancelled:
            finish = Finish.CANCELLED
        ending.text.finish()
        rest = ending.text.take()
        text = "".join([*answer, rest])
        self._transcript.keep(text, session.tokens[len(prompt) :])
        yield Ended(rest, text, finish, session.stats.snapshot(), session.drafter.name)

    def close(self) -> None:
        """Free the models."""
        if self._session is not None:
            self._session.drafter.close()
            self._session.target.close()
            self._session = None

    def _measured_exactness(self, loader: Loader, target: LanguageModel, drafter: Drafter) -> int | None:
        """Return how long drafts may be without changing a bit; None when nothing is drafted.

        The first time for a model the cache is emptied, and the conversation read again when it goes on.
        """
        if isinstance(drafter, NullDrafter):
            return None
        exact_draft = loader.exact_width(target) - 1
        if exact_draft == 0:
            loader.notes.append(_NEVER_EXACT)
        return exact_draft

    def _length(self, question: Question) -> int:
        exact = self._exact_draft
        return question.draft_length if question.allow_rounding or not exact else min(question.draft_length, exact)

    def _tell(self, event: Reading | Round, ending: Ending, answer: list[str]) -> Message:
        if isinstance(event, Reading):
            return event
        answer.append(ending.text.take())
        return Said(answer[-1], event)

    def _loaded(self) -> Session:
        assert self._session is not None, "the first job loads the models"
        return self._session

    def _ready(self, target: LanguageModel, notes: tuple[str, ...]) -> Ready:
        drafter = self._session.drafter.name if self._session else NullDrafter.name
        return Ready(target.name, target.description, drafter, target.context_size, self._exact_draft, notes)
