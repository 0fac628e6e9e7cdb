"""Runs arms against plain decoding: the same prompts, side by side, over one target.

An arm is a drafter with a controller. All arms answer a turn before the next turn is asked, and all of them from the
same place: the target's cache holds the prompt up to its last token, read once, by whichever arm comes first. The
conversation then goes on with the plain answer, so the next prompt is the same for all too. The order of the arms is
turned round on every second prompt (ABBA), so that a machine that gets slower treats them alike.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.conversation.session import Session
from app.engine.conversation.transcript import Transcript
from app.engine.decoding.controller import Controller
from app.engine.decoding.ending import Ending, Finish
from app.engine.decoding.grammar import completes, state_of
from app.engine.decoding.round import Clock, Round
from app.engine.decoding.stats import Snapshot
from drafters.base import Drafter, NullDrafter
from models.base import LanguageModel, common_prefix
from models.errors import LocalspecError
from models.forms.grammar import Grammar
from models.forms.preface import NO_PREFACE, Preface
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler, SamplingParams
from models.text.fim import fim_prompt
from models.text.prompts import Message

PLAIN = "off"
"""Name of the arm that decodes without drafting, which the others are compared with."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to answer."""

    name: str
    drafter: Drafter
    controller: Controller
    ready: Callable[[], None] = lambda: None
    """Called before each answer, outside of its time: takes back what arms share."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """One line of a prompt file."""

    id: str
    class_name: str
    turns: tuple[str, ...] = ()
    """What the user says, in order, in one conversation; empty for a hole to fill."""
    prefix: str = ""
    suffix: str = ""
    grammar: Grammar | None = None
    """What the answers have to look like; None: as they like."""

    @property
    def opening(self) -> tuple[tuple[str, ...], str, str]:
        """What is asked first: who was asked this before knows the answer, whatever the later turns are."""
        return self.turns[:1], self.prefix, self.suffix


@dataclass(frozen=True, slots=True)
class Answer:
    """What one arm answered to one turn, and when."""

    arm: str
    prompt: str
    """Id of the prompt."""
    class_name: str
    turn: int
    """Number of the turn in its conversation, from 0."""
    temperature: float
    seed: int
    tokens: tuple[int, ...]
    text: str
    finish: Finish
    reading_seconds: float
    """Time to read the turn's prompt: read once, so the same number for every arm."""
    rounds: tuple[tuple[float, int], ...]
    """Seconds and emitted tokens of each round, as the consumer sees them; the first has the drafter's start in it."""
    drafting: tuple[float, ...]
    """Seconds of each round that were the drafter's."""
    stats: Snapshot
    asked: tuple[int, ...]
    """Tokens of the prompt."""
    widths: tuple[int, ...]
    """Tokens of each round's pass over the target."""
    trees: tuple[bool, ...]
    """Whether siblings were among them."""
    fork: int | None = None
    """First place where the tokens differ from the plain answer's; None: nowhere."""
    grammar: Grammar | None = None
    """What it had to look like."""
    preface: Preface = NO_PREFACE
    """What could come before that."""

    @property
    def seconds(self) -> float:
        """Time from the prompt's being read to the last token."""
        return sum(seconds for seconds, _ in self.rounds)

    @property
    def first_token_seconds(self) -> float:
        """Time from the question to the first tokens."""
        return self.reading_seconds + self.rounds[0][0]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A prompt, or the rest of its turns, that this model can't be asked."""

    prompt: str
    class_name: str
    reason: str


Turn = tuple[Answer, ...]
"""The answers of all arms to one turn, the plain one first."""
OnAnswer = Callable[[BenchPrompt, str], None]
"""Told before each answer: the prompt and the name of the arm."""


class Bench:
    """Asks every arm the same questions. The target is the caller's, and so is closing it."""

    def __init__(
        self,
        target: LanguageModel,
        clock: Clock,
        max_tokens: int,
        on_answer: OnAnswer,
        accept: Accept = Accept.COUPLED,
        *,
        apart: bool = False,
    ) -> None:
        """Take the target, the most tokens of an answer, and how drafts are judged.

        With `apart` each arm holds a conversation by itself, so that its later turns go on from what its own passes
        left in the cache: as in a chat. Otherwise all arms answer a turn before the next, which compares speeds better.
        """
        self._target = target
        self._clock = clock
        self._max_tokens = max_tokens
        self._on_answer = on_answer
        self._accept = accept
        self._apart = apart
        self._session = Session(target, NullDrafter(), clock)
        self._transcript = Transcript(target, may_be_raw=False)

    def run(
        self, prompts: Sequence[BenchPrompt], make_arms: Callable[[], Sequence[Arm]], sampling: SamplingParams
    ) -> Iterator[Turn | Skipped]:
        """Yield each turn when all arms have answered it; one that is broken off is not yielded.

        The arms are new ones, the first of them must be plain, and they are closed in the end. Raises ValueError for
        a prompt that begins as another does: an arm that remembers would know the answer.
        """
        arms = make_arms()
        # What the last temperature left would spare this one reading its first prompt.
        self._target.rewind(0)
        asked: set[tuple[tuple[str, ...], str, str]] = set()
        try:
            if not arms or arms[0].name != PLAIN:
                raise ValueError("the first arm has to be plain decoding")
            for number, prompt in enumerate(prompts):
                if prompt.opening in asked:
                    raise ValueError(f"prompt {prompt.id} was asked before")
                asked.add(prompt.opening)
                order = arms if number % 2 == 0 else arms[::-1]
                # Another seed for each prompt: the same noise would make all answers begin alike.
                hold = self._conversation_apart if self._apart else self._conversation
                yield from hold(prompt, order, replace(sampling, seed=sampling.seed + number))
        finally:
            for arm in arms:
                arm.drafter.close()

    def _conversation_apart(
        self, prompt: BenchPrompt, order: Sequence[Arm], sampling: SamplingParams
    ) -> Iterator[Turn | Skipped]:
        """Let each arm hold the whole conversation; a turn has the arms that were asked the same as plain decoding."""
        held = [list(self._conversation(prompt, [arm], sampling)) for arm in order]
        plain, *others = held if order[0].name == PLAIN else held[::-1]
        for number, turn in enumerate(plain):
            if isinstance(turn, Skipped):
                yield turn
                continue
            theirs = [one for each in others for turns in each[number : number + 1] for one in _answers(turns)]
            yield _compared([turn[0], *(one for one in theirs if one.asked == turn[0].asked)])

    def _conversation(
        self, prompt: BenchPrompt, order: Sequence[Arm], sampling: SamplingParams
    ) -> Iterator[Turn | Skipped]:
        turns: list[Message] = []
        for number, question in enumerate(prompt.turns or [""]):
            turns.append(Message("user", question))
            tokens = self._tokens(prompt, turns)
            if isinstance(tokens, Skipped):
                yield tokens
                return
            answers = self._turn(prompt, number, tokens, order, sampling)
            if prompt.turns:
                turns.append(Message("assistant", self._transcript.opening + answers[0].text))
                self._transcript.keep(answers[0].text, answers[0].tokens)
            yield answers

    def _tokens(self, prompt: BenchPrompt, turns: Sequence[Message]) -> list[int] | Skipped:
        try:
            tokens = self._transcript.prompt(turns) if prompt.turns else self._infill(prompt)
        except LocalspecError as error:
            # A template may refuse one conversation; the others are worth asking.
            return Skipped(prompt.id, prompt.class_name, error.title.rstrip("."))
        if tokens is None:
            return Skipped(prompt.id, prompt.class_name, "the model has no fill-in-the-middle tokens")
        if len(tokens) + self._max_tokens > self._target.context_size:
            return Skipped(prompt.id, prompt.class_name, "too long for the context with its answer (larger: -c)")
        return tokens

    def _infill(self, prompt: BenchPrompt) -> list[int] | None:
        return fim_prompt(self._target.vocab, prompt.prefix, prompt.suffix)

    def _turn(
        self, prompt: BenchPrompt, number: int, tokens: list[int], order: Sequence[Arm], sampling: SamplingParams
    ) -> Turn:
        """Return every arm's answer, plain first, with what is known only when all are there."""
        answers = []
        for arm in order:
            self._on_answer(prompt, arm.name)
            answers.append(self._answer(prompt, number, tokens, arm, sampling))
        return _compared(answers if order[0].name == PLAIN else answers[::-1])

    def _answer(
        self, prompt: BenchPrompt, number: int, tokens: list[int], arm: Arm, sampling: SamplingParams
    ) -> Answer:
        arm.ready()
        session = self._session
        session.drafter = arm.drafter
        preface = self._transcript.preface() if prompt.turns else NO_PREFACE
        state = state_of(prompt.grammar, self._target.vocab, len(tokens), preface)
        sampler = Sampler(sampling, self._accept, grammar=state)
        ending = Ending(self._target.vocab, budget=self._max_tokens, is_complete=completes(sampler))
        if isinstance(arm.controller, AdaptiveController):
            arm.controller.use(replace(arm.controller.settings, infill=not prompt.turns))
        rounds: list[Round] = []
        arrivals = [self._clock()]
        for event in session.answer(tokens, sampler, ending, arm.controller):
            if isinstance(event, Round):
                rounds.append(event)
                arrivals.append(self._clock())
        arrivals[0] += session.stats.prompt_seconds
        ending.text.finish()
        finish = rounds[-1].finish
        assert finish is not None, "an answer ends by itself, by its budget, or is broken off by an error"
        return Answer(
            arm=arm.name,
            prompt=prompt.id,
            class_name=prompt.class_name,
            turn=number,
            temperature=sampling.temperature,
            seed=sampling.seed,
            tokens=tuple(session.tokens[len(tokens) :]),
            text=ending.text.take(),
            finish=finish,
            reading_seconds=session.stats.prompt_seconds,
            rounds=tuple(
                (after - before, len(round_.emitted))
                for before, after, round_ in zip(arrivals, arrivals[1:], rounds, strict=False)
            ),
            drafting=tuple(round_.draft_seconds for round_ in rounds),
            stats=session.stats.snapshot(),
            asked=tuple(tokens),
            widths=tuple(round_.width for round_ in rounds),
            trees=tuple(bool(round_.draft.siblings) for round_ in rounds),
            grammar=prompt.grammar,
            preface=preface,
        )


def _answers(event: Turn | Skipped) -> Turn:
    return () if isinstance(event, Skipped) else event


def _compared(answers: Sequence[Answer]) -> Turn:
    """Return the answers to one prompt, plain first, with what is known only when all are there."""
    # Who found the prompt in the cache read nothing; without rewinding each arm has to read it.
    read = [one.stats.prompt_seconds for one in answers if one.stats.reused_tokens < len(one.asked) - 1]
    reading = median(read) if read else 0.0
    plain = answers[0].tokens
    return tuple(replace(one, reading_seconds=reading, fork=first_fork(plain, one.tokens)) for one in answers)


def first_fork(plain: Sequence[int], other: Sequence[int]) -> int | None:
    """Return the first place where two answers differ, in tokens or in length; None for equal ones."""
    same = common_prefix(plain, other)
    return None if same == len(plain) == len(other) else same
