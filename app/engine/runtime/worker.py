"""Worker of the engine thread: owns the models; its methods are iterators of messages."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from app.engine.control.acceptance_store import WORTH_WRITING
from app.engine.conversation.drafting import Drafting
from app.engine.conversation.kept_states import keep
from app.engine.conversation.messages import Message, Ready, Recalled
from app.engine.conversation.session import Session
from app.engine.conversation.slot import Slot
from app.engine.conversation.transcript import Transcript
from app.engine.decoding.request import Question
from app.engine.decoding.round import Clock
from app.engine.decoding.shared_pass import Pass
from app.engine.runtime.load import LoadPlan, Progress
from app.engine.runtime.loader import Loader
from app.engine.runtime.slots import bring_together, further_slots, like, shared_batch
from drafters.registry import DrafterSpec
from models.abort import AbortFlag
from models.base import Vocab
from models.errors import LocalspecError
from models.states.writer import StateWriter
from models.system.power import on_battery
from models.text.tool_calls import CallFormat


class Worker:
    """Loaded target and drafter, with one conversation in the caches of each slot."""

    def __init__(self, plan: LoadPlan, abort: AbortFlag, clock: Clock) -> None:
        self._plan = plan
        self._abort = abort
        self._clock = clock
        self._slots: list[Slot] = []
        """Slots, the last used one last."""
        self._numbered: tuple[Slot, ...] = ()
        """Slots by their numbers, which stay."""
        self._writer = StateWriter(plan.states) if plan.states and plan.states.most_bytes else None
        """Writer of conversations' caches; None: they are not kept."""

    @property
    def slots(self) -> int:
        """Most answers at once."""
        return len(self._slots)

    @property
    def clock(self) -> Clock:
        """Clock for all measured times."""
        return self._clock

    @property
    def vocab(self) -> Vocab:
        """Vocabulary of the target."""
        return self._slot.target.vocab

    @property
    def calls(self) -> CallFormat | None:
        """Format of the target's tool calls; None: no tool calls, or an unknown format."""
        return self._slot.transcript.calls

    def load(
        self, on_progress: Progress, plan: LoadPlan | None = None, *, frees_first: bool = False
    ) -> Iterator[Message]:
        """Load the models of a plan, by default the one given at the start; on failure the loaded models stay.

        With `frees_first` they are freed before, so that both need not fit in memory together; none may then be left.
        """
        plan = plan or self._plan
        if frees_first:
            self.close()
        loader = Loader(plan, self._abort, self._clock, on_progress)
        target = loader.target()
        try:
            transcript = Transcript(target)
            drafting = loader.drafting(plan.drafter, target)
        except BaseException:
            target.close()
            raise
        slots = [Slot(target, drafting, transcript, self._clock)]
        try:
            shared = shared_batch(loader, target, plan.slots, drafting)
            others = further_slots(loader, plan.drafter, target, drafting, plan.slots - 1)
            slots.extend(Slot(*twin, Transcript(target), self._clock) for twin in others)
            bring_together(slots, shared)
        except BaseException:
            for slot in slots:
                slot.close()
            raise
        self.close()
        self._plan, self._slots, self._numbered = plan, slots, tuple(slots)
        yield self._ready(tuple(loader.notes))
        self._remember()

    def use_drafter(self, spec: DrafterSpec, on_progress: Progress) -> Iterator[Message]:
        """Change the drafter; on failure the old drafter stays."""
        loader = Loader(replace(self._plan, drafter=spec), self._abort, self._clock, on_progress)
        for slot in self._slots:
            # The next drafter may have the same pair of models, and continues from this record.
            slot.drafting.keep_records()
        for slot, drafting in zip(reversed(self._slots), self._draftings(loader, spec), strict=True):
            slot.use(drafting)
        self._plan = replace(self._plan, drafter=spec)
        yield self._ready(tuple(loader.notes))
        self._remember()

    def _draftings(self, loader: Loader, spec: DrafterSpec) -> list[Drafting]:
        """Return the new drafting of each slot, the last slot first; raises before any slot has changed."""
        last, *others = reversed(self._slots)
        made = [loader.drafting(spec, last.target)]
        try:
            made.extend(like(loader, spec, slot.target, made[0]) for slot in others)
        except BaseException:
            for drafting in made:
                drafting.drafter.close()
            raise
        return made

    def answer(self, question: Question, urgency: int = 0) -> Iterator[Message | Pass]:
        """Answer a question on the free slot that fits best; see `Slot.answer`."""
        free = [slot for slot in self._slots if not slot.busy]
        busy = [slot for slot in self._slots if slot.busy]
        # Once for all: a hole can be as large as the context.
        slot = free[0]
        given = slot.given(question)
        if len(free) > 1:
            # Among equals the longest unused one: the content of the others is likelier to be needed again.
            slot = max(free, key=lambda one: one.fitness(question, given, busy))
        self._slots.remove(slot)
        self._slots.append(slot)
        yield from slot.answer(question, given, urgency)
        slot.drafting.learn()
        slot.drafting.keep_records(WORTH_WRITING)

    def session(self, number: int) -> Session | None:
        """Return the session of a slot that answers nothing now; None while it does."""
        slot = self._numbered[number]
        return None if slot.busy else slot.session

    def count(self, question: Question) -> int:
        """Return the number of tokens of a conversation's prompt; see `Slot.count`."""
        return self._slot.count(question)

    def explain(self, settings: Question) -> Iterator[Message]:
        """Yield the controller's figures; see `Slot.explain`."""
        return self._slot.explain(settings)

    def walk(self, back: int | None) -> Iterator[Message]:
        """Yield a round of the last answer step by step; see `Slot.walk`."""
        return self._slot.walk(back)

    def recall(self, conversation: Question, spelled: Sequence[Sequence[int]], key: str = "") -> Iterator[Message]:
        """Restore the tokens of a conversation's answers, as an earlier run emitted them, and its cache if it is kept.

        `key` names the conversation; "": its cache is not looked for. Yields the conversation's size.
        """
        self._slot.recall(conversation, spelled)
        # The next answer reports why a conversation can't be rendered.
        with suppress(LocalspecError):
            if key and self._writer is not None:
                self._writer.settle()
                self._slot.reopen(conversation, key, self._writer.folder)
            yield Recalled(self._slot.held(conversation) if spelled else 0)

    def keep(self, key: str, *, leaving: bool = False) -> Iterator[Message]:
        """Keep what the caches hold of a conversation for a later run; stops early for a more urgent job."""
        if self._writer is not None and self._slots:
            keep(self._slot.session, key, self._writer, self._abort, leaving=leaving)
        yield from ()

    def read_in_pause(self) -> Iterator[Message]:
        """Let the draft models read the last answer while nothing else is wanted; not on a battery."""
        if self._slots and not on_battery():
            self._slot.read_in_pause()
        yield from ()

    def unload(self) -> Iterator[Message]:
        """Free the models; the next job has to load some."""
        self.close()
        yield from ()

    def close(self) -> None:
        """Free the models."""
        for slot in self._slots:
            slot.close()
        self._slots, self._numbered = [], ()
        if self._writer is not None:
            self._writer.settle()

    @property
    def _slot(self) -> Slot:
        assert self._slots, "the first job loads the models"
        return self._slots[-1]

    def _remember(self) -> None:
        """Index texts of earlier runs, after the message that the load is done, while the user types."""
        for slot in self._slots:
            slot.remember()

    def _ready(self, notes: tuple[str, ...]) -> Ready:
        slot = self._slot
        target, drafting = slot.target, slot.drafting
        name, exact = drafting.drafter.name, drafting.exact_draft
        bare = not slot.transcript.has_template
        chat = (f"{target.name} has no chat template: your text is sent as it is.",) * bare
        chat += (f"{target.name}'s chat template is broken: chats can't use it.",) * slot.transcript.has_broken_template
        return Ready(
            target.name,
            target.description,
            name,
            target.context_size,
            exact,
            notes=notes,
            chat_notes=chat,
            slots=len(self._slots),
            efforts=slot.transcript.efforts,
        )
