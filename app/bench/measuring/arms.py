"""Comparison of arms with plain decoding on equal prompts, over one target.

An arm is a drafter with a controller. All arms answer a turn before the next one, from one state: the target's cache
holds the prompt up to its last token, read once by the first arm. The conversation then goes on with the plain answer,
so the next prompt is equal for all too. The order of the arms is reversed on every second prompt (ABBA), so that a
machine that gets slower affects them alike.
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
from drafters.base import Drafter, NullDrafter, hand_messages
from models.base import LanguageModel, common_prefix
from models.errors import LocalspecError
from models.forms.grammar import Grammar
from models.forms.preface import NO_PREFACE, Preface
from models.sampling.accept import Accept
from models.sampling.sampler import Sampler, SamplingParams
from models.system.power import EnergyMeter
from models.text.fim import fim_prompt
from models.text.prompts import Message

PLAIN = "off"
"""Name of the arm without drafting, with which the others are compared."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Drafter with a controller, under a name."""

    name: str
    drafter: Drafter
    controller: Controller
    ready: Callable[[], None] = lambda: None
    """Called before each answer, outside of its time: takes back shared resources."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """Prompt from one line of a prompt file."""

    id: str
    class_name: str
    turns: tuple[str, ...] = ()
    """Messages of the user, in order, in one conversation; empty for a gap to fill."""
    prefix: str = ""
    suffix: str = ""
    grammar: Grammar | None = None
    """Required form of the answers; None: any."""

    @property
    def opening(self) -> tuple[tuple[str, ...], str, str]:
        """Return the first question, which must be unique: a drafter with memory would know the answer."""
        return self.turns[:1], self.prefix, self.suffix


@dataclass(frozen=True, slots=True)
class ArmAnswer:
    """Answer of one arm to one turn, with its times in seconds."""

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
    """Time to read the turn's prompt: read once, so equal for every arm."""
    rounds: tuple[tuple[float, int], ...]
    """Seconds and emitted tokens of each round, as its consumer sees them; the first includes the drafter's start."""
    drafting: tuple[float, ...]
    """Seconds of the drafter in each round."""
    stats: Snapshot
    prompt_tokens: tuple[int, ...]
    """Tokens of the prompt."""
    widths: tuple[int, ...]
    """Tokens of each round's pass over the target."""
    trees: tuple[bool, ...]
    """Whether the pass had siblings, for each round."""
    sources: tuple[str, ...] = ()
    """Source of each round's draft; "" for a round without one."""
    joules: float | None = None
    """Energy of the processor during the answer, its prompt left out; None where the machine does not tell."""
    fork: int | None = None
    """First place where the tokens differ from the plain answer's; None: they are equal."""
    grammar: Grammar | None = None
    """Required form."""
    preface: Preface = NO_PREFACE
    """Text allowed before the form."""

    @property
    def seconds(self) -> float:
        """Time from the end of reading the prompt to the last token."""
        return sum(seconds for seconds, _ in self.rounds)

    @property
    def first_token_seconds(self) -> float:
        """Time from the question to the first tokens."""
        return self.reading_seconds + self.rounds[0][0]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Prompt, or the rest of its turns, that does not suit this model."""

    prompt: str
    class_name: str
    reason: str


Turn = tuple[ArmAnswer, ...]
"""Answers of all arms to one turn, the plain one first."""
OnAnswer = Callable[[BenchPrompt, str], None]
"""Receives the prompt and the name of the arm before each answer."""


class Bench:
    """Benchmark of arms on equal questions. The caller owns and closes the target."""

    def __init__(
        self,
        target: LanguageModel,
        clock: Clock,
        max_tokens: int,
        on_answer: OnAnswer,
        accept: Accept = Accept.COUPLED,
        *,
        apart: bool = False,
        energy: Callable[[], float | None] | None = None,
    ) -> None:
        """Take the target, the most tokens of an answer, and how drafts are judged.

        `energy` returns the joules since its last call, None where they are unknown; by default those of the machine.

        With `apart` each arm has its own conversation, whose later turns use the cache left by its own passes, as in a
        chat. Otherwise all arms answer a turn before the next, which compares speeds better.
        """
        self._target = target
        self._clock = clock
        self._max_tokens = max_tokens
        self._on_answer = on_answer
        self._accept = accept
        self._apart = apart
        self._energy = energy or EnergyMeter().joules
        self._session = Session(target, NullDrafter(), clock)
        self._transcript = Transcript(target, may_be_raw=False)

    def run(
        self, prompts: Sequence[BenchPrompt], make_arms: Callable[[], Sequence[Arm]], sampling: SamplingParams
    ) -> Iterator[Turn | Skipped]:
        """Yield each turn when all arms have answered it; an unfinished turn is not yielded.

        The arms must be new, the first of them plain; they are closed at the end. Raises ValueError for a prompt that
        repeats the first question of another: an arm with memory would know the answer.
        """
        arms = make_arms()
        # The cache of the last temperature would save reading the first prompt of this one.
        self._target.rewind(0)
        openings: set[tuple[tuple[str, ...], str, str]] = set()
        try:
            if not arms or arms[0].name != PLAIN:
                raise ValueError("the first arm has to be plain decoding")
            for number, prompt in enumerate(prompts):
                if prompt.opening in openings:
                    raise ValueError(f"prompt {prompt.id} was asked before")
                openings.add(prompt.opening)
                order = arms if number % 2 == 0 else arms[::-1]
                # Each prompt has its own seed: equal noise would make all answers begin alike.
                hold = self._conversation_apart if self._apart else self._conversation
                yield from hold(prompt, order, replace(sampling, seed=sampling.seed + number))
        finally:
            for arm in arms:
                arm.drafter.close()

    def _conversation_apart(
        self, prompt: BenchPrompt, order: Sequence[Arm], sampling: SamplingParams
    ) -> Iterator[Turn | Skipped]:
        """Run the whole conversation for each arm; a turn has the arms whose prompt equals plain decoding's."""
        held = [list(self._conversation(prompt, [arm], sampling)) for arm in order]
        plain, *others = held if order[0].name == PLAIN else held[::-1]
        for number, turn in enumerate(plain):
            if isinstance(turn, Skipped):
                yield turn
                continue
            theirs = [one for each in others for turns in each[number : number + 1] for one in _answers(turns)]
            yield _compared([turn[0], *(one for one in theirs if one.prompt_tokens == turn[0].prompt_tokens)])

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
            for arm in order:
                hand_messages(arm.drafter, turns if prompt.turns else ())
            answers = self._turn(prompt, number, tokens, order, sampling)
            if prompt.turns:
                turns.append(Message("assistant", self._transcript.opening + answers[0].text))
                self._transcript.keep(answers[0].text, answers[0].tokens)
            yield answers

    def _tokens(self, prompt: BenchPrompt, turns: Sequence[Message]) -> list[int] | Skipped:
        try:
            vocab = self._target.vocab
            tokens = self._transcript.prompt(turns) if prompt.turns else fim_prompt(vocab, prompt.prefix, prompt.suffix)
        except LocalspecError as error:
            # A template may refuse one conversation and accept the others.
            return Skipped(prompt.id, prompt.class_name, error.title.rstrip("."))
        if tokens is None:
            return Skipped(prompt.id, prompt.class_name, "the model has no fill-in-the-middle tokens")
        if len(tokens) + self._max_tokens > self._target.context_size:
            return Skipped(prompt.id, prompt.class_name, "too long for the context with its answer (larger: -c)")
        return tokens

    def _turn(
        self, prompt: BenchPrompt, number: int, tokens: list[int], order: Sequence[Arm], sampling: SamplingParams
    ) -> Turn:
        """Return every arm's answer, plain first, with forks and the common prompt time."""
        answers = []
        for arm in order:
            self._on_answer(prompt, arm.name)
            answers.append(self._answer(prompt, number, tokens, arm, sampling))
        return _compared(answers if order[0].name == PLAIN else answers[::-1])

    def _answer(
        self, prompt: BenchPrompt, number: int, tokens: list[int], arm: Arm, sampling: SamplingParams
    ) -> ArmAnswer:
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
        self._energy()
        for event in session.answer(tokens, sampler, ending, arm.controller):
            if isinstance(event, Round):
                rounds.append(event)
                arrivals.append(self._clock())
            else:
                # What reading the prompt took is left out.
                self._energy()
        joules = self._energy()
        arrivals[0] += session.stats.prompt_seconds
        ending.text.finish()
        finish = rounds[-1].finish
        assert finish is not None, "an answer ends by itself, by its limit, or by an error"
        return ArmAnswer(
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
            joules=joules,
            prompt_tokens=tuple(tokens),
            widths=tuple(round_.width for round_ in rounds),
            trees=tuple(bool(round_.draft.siblings) for round_ in rounds),
            sources=tuple(round_.draft.source if round_.draft.tokens else "" for round_ in rounds),
            grammar=prompt.grammar,
            preface=preface,
        )


def _answers(event: Turn | Skipped) -> Turn:
    return () if isinstance(event, Skipped) else event


def _compared(answers: Sequence[ArmAnswer]) -> Turn:
    """Return the answers to one prompt, plain first, with forks and the common prompt time."""
    # An arm that found the prompt in the cache read nothing; without rewinding each arm has to read it.
    read = [one.stats.prompt_seconds for one in answers if one.stats.reused_tokens < len(one.prompt_tokens) - 1]
    reading = median(read) if read else 0.0
    plain = answers[0].tokens
    return tuple(replace(one, reading_seconds=reading, fork=first_fork(plain, one.tokens)) for one in answers)


def first_fork(plain: Sequence[int], other: Sequence[int]) -> int | None:
    """Return the first place where two answers differ, in tokens or in length; None for equal answers."""
    same = common_prefix(plain, other)
    return None if same == len(plain) == len(other) else same
