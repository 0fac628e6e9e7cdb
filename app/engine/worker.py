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
from drafters.base import NullDrafter
from drafters.registry import DrafterSpec
from models.abort import AbortFlag
from models.base import LanguageModel
from models.errors import Cancelled
from models.prompts import Message as Turn
from models.sampling import Sampler, SamplingParams


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


class Worker:
    """A loaded target, its drafter, and one conversation in their caches."""

    def __init__(self, plan: LoadPlan, abort: AbortFlag, clock: Clock) -> None:
        self._plan = plan
        self._abort = abort
        self._clock = clock
        self._session: Session | None = None

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
        if not self._transcript.has_template:
            loader.notes.append(f"{target.name} has no chat template: your text is sent as it is.")
        yield self._ready(target, tuple(loader.notes))

    def use_drafter(self, spec: DrafterSpec, on_progress: Progress) -> Iterator[Message]:
        """Change the drafter; one that can't be used leaves the old one in place."""
        session = self._loaded()
        loader = Loader(replace(self._plan, drafter=spec), self._abort, on_progress)
        drafter = loader.drafter(spec, session.target)
        session.drafter.close()
        session.drafter = drafter
        yield self._ready(session.target, tuple(loader.notes))

    def answer(self, question: Question) -> Iterator[Message]:
        """Answer a question; stopped half-way, it ends in order, and what was said stays said."""
        session = self._loaded()
        prompt = self._transcript.prompt(question.turns, raw=question.raw)
        ending = Ending(session.target.vocab, stops=question.stops, budget=question.max_tokens)
        rounds = session.answer(prompt, Sampler(question.sampling), ending, FixedLength(question.draft_length))
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
        return Ready(target.name, target.description, drafter, target.context_size, notes)
