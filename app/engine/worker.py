"""What the engine can do, as iterators of messages. It owns the models, so it runs on the engine's one thread."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.engine.guessing import Guessing
from app.engine.lane import Lane
from app.engine.load import Loader, LoadPlan, Progress
from app.engine.messages import Message, Ready
from app.engine.passes import Pass
from app.engine.question import Question
from app.engine.round import Clock
from app.engine.transcript import Transcript
from app.engine.twins import bring_together, company, like, twins
from drafters.registry import DrafterSpec
from models.abort import AbortFlag
from models.base import Vocab


class Worker:
    """A loaded target and its drafter, and as many conversations in their caches as there are lanes."""

    def __init__(self, plan: LoadPlan, abort: AbortFlag, clock: Clock) -> None:
        self._plan = plan
        self._abort = abort
        self._clock = clock
        self._lanes: list[Lane] = []
        """The one that was used last comes last."""

    @property
    def lanes(self) -> int:
        """How many answers can be given at once."""
        return len(self._lanes)

    @property
    def clock(self) -> Clock:
        """What time is taken by."""
        return self._clock

    @property
    def vocab(self) -> Vocab:
        """The tokens of the target."""
        return self._lane.target.vocab

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
        lanes = [Lane(target, guessing, transcript, self._clock)]
        try:
            shared = company(loader, target, plan.lanes)
            others = twins(loader, plan.drafter, target, guessing, plan.lanes - 1)
            lanes.extend(Lane(*twin, Transcript(target), self._clock) for twin in others)
            bring_together(lanes, shared)
        except BaseException:
            for lane in lanes:
                lane.close()
            raise
        self.close()
        self._plan, self._lanes = plan, lanes
        yield self._ready(tuple(loader.notes))
        self._remember()

    def use_drafter(self, spec: DrafterSpec, on_progress: Progress) -> Iterator[Message]:
        """Change the drafter; one that can't be used leaves the old one in place."""
        loader = Loader(replace(self._plan, drafter=spec), self._abort, self._clock, on_progress)
        for lane, guessing in zip(reversed(self._lanes), self._guessings(loader, spec), strict=True):
            lane.use(guessing)
        self._plan = replace(self._plan, drafter=spec)
        yield self._ready(tuple(loader.notes))
        self._remember()

    def _guessings(self, loader: Loader, spec: DrafterSpec) -> list[Guessing]:
        """Return who guesses from now on, for each lane, the last lane first: all of them, or none."""
        last, *others = reversed(self._lanes)
        made = [loader.guessing(spec, last.target)]
        try:
            made.extend(like(loader, spec, lane.target, made[0]) for lane in others)
        except BaseException:
            for guessing in made:
                guessing.drafter.close()
            raise
        return made

    def answer(self, question: Question, urgency: int = 0) -> Iterator[Message | Pass]:
        """Answer a question, on the free lane where it costs least; see `Lane.answer`."""
        free = [lane for lane in self._lanes if not lane.busy]
        busy = [lane for lane in self._lanes if lane.busy]
        # Once for all: a hole can be as large as the context.
        lane = free[0]
        given = lane.given(question)
        if len(free) > 1:
            # Of those that are equal the one that was left alone longest: what the others read may be wanted again.
            lane = max(free, key=lambda one: one.fitness(question, given, busy))
        self._lanes.remove(lane)
        self._lanes.append(lane)
        yield from lane.answer(question, given, urgency)

    def explain(self, *, adapts: bool) -> Iterator[Message]:
        """Tell what drafting costs here and what came of it; see `Lane.explain`."""
        return self._lane.explain(adapts=adapts)

    def walk(self, back: int | None) -> Iterator[Message]:
        """Tell how a round of the last answer was judged; see `Lane.walk`."""
        return self._lane.walk(back)

    def recall(self, conversation: Question, spelled: Sequence[Sequence[int]]) -> Iterator[Message]:
        """Remember in which tokens the answers of a conversation were given, in a run before this one."""
        self._lane.recall(conversation, spelled)
        yield from ()

    def close(self) -> None:
        """Free the models."""
        for lane in self._lanes:
            lane.close()
        self._lanes = []

    @property
    def _lane(self) -> Lane:
        assert self._lanes, "the first job loads the models"
        return self._lanes[-1]

    def _remember(self) -> None:
        """Learn what was said in earlier runs; after the load was told, for then the user types."""
        for lane in self._lanes:
            lane.remember()

    def _ready(self, notes: tuple[str, ...]) -> Ready:
        lane = self._lane
        target, guessing = lane.target, lane.guessing
        name, exact = guessing.drafter.name, guessing.exact_draft
        bare = not lane.transcript.has_template
        chat = (f"{target.name} has no chat template: your text is sent as it is.",) * bare
        return Ready(target.name, target.description, name, target.context_size, exact, notes, chat, len(self._lanes))
