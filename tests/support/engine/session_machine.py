"""A chat that is used in any order, and after each step compared with one that starts anew.

Worker, session, transcript and drafters are the real ones. The models are toys, whose every row depends on all they
hold; one of their words can be spelled in two ways, so a history that is read back from its text shows too.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
from fakes import END, INTACT, Case, plain
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.typing import NDArray

from app.engine.conversation.messages import Ended, Message, Ready, Said
from app.engine.conversation.session import Reading
from app.engine.decoding.ending import Finish
from app.engine.decoding.request import Question
from app.engine.runtime import load
from app.engine.runtime.load import LoadPlan
from app.engine.runtime.worker import Worker
from drafters.draft_model import DraftModel
from drafters.hybrid import Hybrid
from drafters.registry import parse_drafter
from models.abort import AbortFlag
from models.base import common_prefix
from models.errors import Cancelled, ContextFullError, ModelFileError
from models.llama.load import LlamaOptions
from models.sampling.sampler import SamplingParams
from models.text.prompts import Message as Turn
from models.toy import ToyModel, ToyVocab

WORD = END + 1
T, H = ToyVocab().tokenize("th")
TEMPLATE = "{% for message in messages %}{{ message.role[0] }}.{{ message.content }}<end>{% endfor %}a."


class WordVocab(ToyVocab):
    """The toy's vocabulary and a token for "th", which the tokenizer always uses; the model need not."""

    def __init__(self) -> None:
        super().__init__(padding=1)
        self._pieces[WORD] = b"th"

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        ids: list[int] = []
        for token in super().tokenize(text, special=special):
            if token == H and ids[-1:] == [T]:
                ids[-1] = WORD
            else:
                ids.append(token)
        return ids

    def text(self, token: int) -> str:
        return "th" if token == WORD else super().text(token)

    def is_padding(self, token: int) -> bool:  # noqa: ARG002
        return False

    def spelled(self, tokens: Sequence[int]) -> str:
        return "".join(map(self.text, tokens))


VOCAB = WordVocab()


class WordToy(ToyModel):
    """A toy that speaks `WordVocab`, reads in small bites, and often comes to an end."""

    def __init__(
        self, seed: int = 0, *, unlikeness: float = 0.0, context_size: int = 64, abort: AbortFlag | None = None
    ) -> None:
        super().__init__(seed, unlikeness=unlikeness, context_size=context_size, padding=1, abort=abort)
        self.vocab = VOCAB
        self.batch_size, self.max_rows = 16, 9
        self.chat_template = TEMPLATE
        self._pairs[:, T] += 3
        self._pairs[T, H] += 6
        self._pairs[:, WORD] = self._pairs[:, T] - 1
        self._pairs[:, END] += 3

    @property
    def held(self) -> tuple[int, ...]:
        """The tokens in the cache."""
        return tuple(self._cache)

    def end_row(self) -> NDArray[np.float32]:
        """Return the logits after all that the cache holds; zeros after nothing."""
        return self._row(self.length) if self.length else np.zeros(self.vocab.size, np.float32)


class Tripwire(AbortFlag):
    """An abort flag that goes up by itself inside the n-th pass of a model, as when a user stops it there."""

    def __init__(self) -> None:
        super().__init__()
        self.passes: Counter[str] = Counter()
        self.stopped = ""
        """Whose pass it went up in."""
        self._armed = ("", 0)
        self._waits = False

    def arm(self, who: str, at: int) -> None:
        """Stop in the n-th pass of a model from now on; "check": in the target's, after the n-th of the draft model."""
        self._waits = who == "check"
        who = "draft" if self._waits else who
        self._armed = (who, self.passes[who] + at)

    def pass_begins(self, who: str) -> None:
        self.passes[who] += 1
        if (who, self.passes[who]) == self._armed:
            if self._waits:
                self.arm("target", 1)
            else:
                self.set()
        if self.is_set:
            self.stopped = who

    def rest(self) -> None:
        self._armed = ("", 0)
        self.clear()


class Wire(AbortFlag):
    """One model's end of a tripwire; every pass polls it once."""

    def __init__(self, tripwire: Tripwire, who: str) -> None:
        super().__init__()
        self._tripwire, self._who = tripwire, who

    @property
    def is_set(self) -> bool:
        self._tripwire.pass_begins(self._who)
        return self._tripwire.is_set


@dataclass(frozen=True, slots=True)
class Stop:
    """How an answer is stopped: inside a pass (see `Tripwire.arm`), before it, after a message, or by walking away."""

    how: str = "never"
    at: int = 1
    """Number of the pass or message."""


NEVER = Stop()
STOPS = st.builds(
    Stop,
    st.sampled_from(("target", "draft", "check", "check", "before", "after a message", "walk away", "walk away")),
    st.integers(1, 3) | st.integers(4, 24),
)
NEVER_OR_STOP = st.just(NEVER) | STOPS
TEXTS = st.sampled_from(
    ("the cat", "so", "then", "is that the other path", "a", "the cat sat on the mat. the cat", "that " * 16)
)
NOWHERE = "nowhere/none.gguf"
DRAFTERS = st.sampled_from(("toy", "toy", "model:toy", "model:toy", "auto", "suffix", "lookup", "off", NOWHERE))
SAMPLINGS = st.builds(
    SamplingParams,
    temperature=st.sampled_from((0.0, 0.7, 1.0)),
    top_k=st.sampled_from((0, 5, 40)),
    repeat_penalty=st.sampled_from((1.0, 1.0, 1.3)),
    seed=st.integers(0, 9),
)
ENDINGS = st.fixed_dictionaries(
    {
        "stops": st.sampled_from(((), ("th",), ("e ", "s", "t."), ("\n", "a"), ("ththth",))),
        "max_tokens": st.sampled_from((1, 2, 3, 5, 8, 12, 20, None)),
    }
)
DRAFTINGS = st.fixed_dictionaries(
    {
        "adapt": st.booleans(),
        "draft_length": st.sampled_from((None, 1, 4, 8)),
        "prediction": st.sampled_from(("", "the cat. ")),
    }
)
CHANGES = st.fixed_dictionaries({"sampling": SAMPLINGS}) | ENDINGS | DRAFTINGS
Conversation = tuple[Turn, ...]
MACHINE = settings(
    max_examples=200,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""The same chats in every run."""


@lru_cache(maxsize=10_000)
def plain_of(case: Case) -> Any:
    """Return what a new session on a new model says without drafting."""
    return plain(case, replace(INTACT, target=lambda case: WordToy(case.toy_seed, context_size=case.context_size)))


def silent(name: str, fraction: float) -> None:
    """Ignore the progress of a load."""


def text_of(tokens: Sequence[int], stops: Sequence[str]) -> str:
    """Return the text of an answer, all at once: characters from bytes, cut before the first stop string."""
    text = b"".join(map(VOCAB.piece, tokens)).decode(errors="replace")
    return text[: min((text.index(stop) for stop in stops if stop in text), default=len(text))]


class ChatMachine(RuleBasedStateMachine):
    """One worker, used in every way; what a rule does not check, an invariant does."""

    visits: ClassVar[Counter[str]] = Counter()
    """How often each situation was met: a machine that never meets one proves nothing about it."""

    @initialize(
        toy_seed=st.sampled_from((0, 3, 22, 78)),
        context_size=st.sampled_from((72, 160)),
        drafter=DRAFTERS,
        adapt=st.booleans(),
    )
    def load(self, toy_seed: int, context_size: int, drafter: str, adapt: bool) -> None:
        self.toy_seed, self.context_size = toy_seed, context_size
        self.tripwire = Tripwire()
        self.toys: list[WordToy] = []
        plan = LoadPlan("toy", parse_drafter("off"), LlamaOptions(context_size=context_size), Path("none.json"))
        self.worker = Worker(plan, self.tripwire, self._clock)
        with self._toys_for("target"):
            list(self.worker.load(silent))
        self.session = self.worker._slot.session
        self.wanted = Question((), SamplingParams(), max_tokens=12, adapt=adapt, draft_length=8)
        self.turns: Conversation = ()
        self.left: list[tuple[Conversation, list[int]]] = []
        """Conversations, each going on from the one before, and the tokens they were left as."""
        self.told: list[int] = []
        """What the drafter was told of the text."""
        self.proposals_left = False
        """Whether a stopped round may have left guesses in the draft model."""
        self.drafter = "off"
        self.change_drafter(drafter, 0)

    @rule(text=TEXTS)
    def ask(self, text: str) -> None:
        self._send((*self.turns, Turn("user", text)), NEVER)

    @rule(text=TEXTS, stop=STOPS, again=st.booleans())
    def ask_and_stop(self, text: str, stop: Stop, again: bool) -> None:
        turns = (*self.turns, Turn("user", text))
        self._send(turns, stop)
        if again:
            self._send(turns, NEVER)

    @precondition(lambda self: self.turns)
    @rule(stop=NEVER_OR_STOP)
    def regenerate(self, stop: Stop) -> None:
        sampling = self.wanted.sampling
        self.wanted = replace(self.wanted, sampling=replace(sampling, seed=sampling.seed + 1))
        self._send(self.turns[:-1], stop)

    @precondition(lambda self: self.turns)
    @rule(place=st.integers(0, 3), text=TEXTS, stop=NEVER_OR_STOP)
    def edit(self, place: int, text: str, stop: Stop) -> None:
        """Change an earlier question and send it; what came after it is gone once something is answered."""
        before = self.turns[: 2 * (place % (len(self.turns) // 2))]
        self._send((*before, Turn("user", text)), stop)

    @precondition(lambda self: self.turns)
    @rule()
    def undo(self) -> None:
        self.turns = self.turns[:-2]

    @precondition(lambda self: self.turns)
    @rule()
    def clear(self) -> None:
        self.turns = ()

    @rule(name=DRAFTERS, stopped_at=st.sampled_from((0, 0, 0, 1, 4, 12, 25)))
    def change_drafter(self, name: str, stopped_at: int) -> None:
        """Change the drafter, or be stopped while passes are timed for it: then the old one stays."""
        if stopped_at:
            self.tripwire.arm("target", stopped_at)
        try:
            with self._toys_for("draft"):
                (ready,) = self.worker.use_drafter(parse_drafter(name), silent)
        except (Cancelled, ModelFileError) as error:
            self.visits[f"the drafter stayed: {type(error).__name__}"] += 1
            return
        finally:
            self.tripwire.rest()
        assert isinstance(ready, Ready)
        self.drafter = ready.drafter
        self.told, self.proposals_left = [], False

    @rule(change=CHANGES)
    def change_settings(self, change: dict[str, Any]) -> None:
        self.wanted = replace(self.wanted, **change)

    @invariant()
    def the_cache_is_that_of_a_new_model_which_read_the_same_text(self) -> None:
        target, tokens = self._target(), self.session.tokens
        assert target.length < max(1, len(tokens)), "one token at least is pending"
        fresh = WordToy(self.toy_seed, context_size=self.context_size)
        for start in range(0, target.length, fresh.batch_size):
            fresh.decode(tokens[start : min(start + fresh.batch_size, target.length)], rows=0)
        assert (target.length, target.held) == (fresh.length, fresh.held)
        assert np.array_equal(target.end_row(), fresh.end_row())

    @invariant()
    def the_draft_model_holds_the_beginning_of_what_it_was_told(self) -> None:
        """A round that was stopped may leave guesses behind it, until the next answer begins."""
        for model in self._draft_models():
            assert isinstance(model.model, WordToy)
            view = self.told[model.skipped :]
            strange = model.model.length - common_prefix(model.model.held, view)
            assert strange <= (self._target().max_rows if self.proposals_left else 0), "unconfirmed draft tokens"
            self.visits["a stop left guesses behind"] += strange > 0
            self.visits["the draft model skipped the beginning"] += model.skipped > 0

    def _send(self, turns: Conversation, stop: Stop) -> None:
        """Ask for the answer to a conversation and check all about it; said something, it is the one that goes on."""
        self.left = [(before, tokens) for before, tokens in self.left if turns[: len(before)] == before]
        held, tokens = self._target().held, list(self.session.tokens)
        question = replace(self.wanted, turns=turns)
        try:
            messages = self._listen(question, stop)
        except ContextFullError:
            assert len(_rendered(turns).replace("<end>", ".").encode()) > self.context_size
            assert (self._target().held, self.session.tokens) == (held, tokens)
            self.visits["context full before the answer"] += 1
            return
        prompt = self._check_prompt(turns, held)
        self._check_answer(question, messages, prompt)
        if isinstance(messages[-1], Ended):
            self._keep(turns, messages[-1], prompt)
        self._remember_what_was_told(messages, len(prompt))

    def _listen(self, question: Question, stop: Stop) -> list[Message]:
        """Return the messages of an answer, as far as it is listened to."""
        if stop.how in ("target", "draft", "check"):
            self.tripwire.arm(stop.how, stop.at)
        elif stop.how == "before":
            self.tripwire.set()
        messages: list[Message] = []
        stream = self.worker.answer(question)
        try:
            for message in stream:
                messages.append(message)
                if len(messages) == stop.at and stop.how == "after a message":
                    self.tripwire.set()
                if len(messages) == stop.at and stop.how == "walk away":
                    break
        finally:
            stream.close()  # type: ignore[attr-defined]
            self.tripwire.rest()
        return messages

    def _check_prompt(self, turns: Conversation, held: tuple[int, ...]) -> list[int]:
        """Check that the prompt is the conversation, as it was emitted, and that what it shares was not read again."""
        stats, rendered = self.session.stats, VOCAB.tokenize(_rendered(turns))
        prompt = self.session.tokens[: stats.prompt_tokens]
        assert len(prompt) <= self.context_size
        assert VOCAB.spelled(prompt) == VOCAB.spelled(rendered)
        if self.left:
            tokens = self.left[-1][1]
            assert prompt[: len(tokens)] == tokens, "what was emitted was spelled anew"
            self.visits["emitted in other tokens than the tokenizer's"] += prompt != rendered
        assert stats.reused_tokens == min(common_prefix(held, prompt), len(prompt) - 1)
        self.visits["went on from the cache"] += stats.reused_tokens > 0
        return prompt

    def _check_answer(self, question: Question, messages: list[Message], prompt: list[int]) -> None:
        """Compare an answer, or what there is of it, with that of a new session, and the cache with its text."""
        emitted, target = self.session.tokens[len(prompt) :], self._target()
        wanted = plain_of(
            Case(
                prompt=tuple(prompt),
                sampling=question.sampling,
                toy_seed=self.toy_seed,
                stops=question.stops,
                budget=question.max_tokens,
                context_size=self.context_size,
            )
        )
        assert tuple(emitted) == wanted.tokens[: len(emitted)]
        told = [message.round.emitted for message in messages if isinstance(message, Said)]
        assert [token for tokens in told for token in tokens] == emitted
        if emitted:
            # One more may be missing where a second guess came true: its place in the cache was another's.
            assert len(self.session.tokens) - target.length in (1, 2)
        if isinstance(ended := messages[-1] if messages else None, Ended):
            self._check_end(ended, messages, emitted, wanted, question.stops)
        self._count(messages, len(prompt))

    def _check_end(
        self, ended: Ended, messages: list[Message], emitted: list[int], wanted: Any, stops: tuple[str, ...]
    ) -> None:
        if ended.finish is Finish.CANCELLED:
            assert len(emitted) < len(wanted.tokens)
        else:
            assert (tuple(emitted), ended.answer, ended.finish) == (wanted.tokens, wanted.text, wanted.finish)
        assert ended.answer == text_of(emitted, stops)
        assert "".join(message.text for message in messages if isinstance(message, Said | Ended)) == ended.answer
        assert (ended.stats.emitted, ended.drafter) == (len(emitted), self.drafter)

    def _keep(self, turns: Conversation, ended: Ended, prompt: list[int]) -> None:
        """Go on from an answer as a chat does: one without a word is forgotten together with its question."""
        if not ended.answer:
            return
        self.turns = (*turns, Turn("assistant", ended.answer))
        said = [token for token in self.session.tokens[len(prompt) :] if token != END]
        if b"".join(map(VOCAB.piece, said)) == ended.answer.encode():
            self.left.append((self.turns, [*prompt, *said]))

    def _remember_what_was_told(self, messages: list[Message], prompt_length: int) -> None:
        walked_away = bool(messages) and isinstance(messages[-1], Reading)
        if not walked_away and self._target().length >= prompt_length - 1:
            self.told = list(self.session.tokens)
            self.proposals_left = _cancelled(messages)

    def _count(self, messages: list[Message], prompt_length: int) -> None:
        last = messages[-1] if messages else None
        reading = self._target().length < prompt_length - 1
        if _cancelled(messages):
            where = "while reading" if reading else f"in a pass of the {self.tripwire.stopped}"
            self.visits[f"stopped {where}"] += 1
        elif isinstance(last, Ended):
            self.visits[f"ended by {last.finish}"] += 1
        else:
            self.visits["left " + ("while reading" if isinstance(last, Reading) else "between rounds")] += 1
        rounds = [message.round for message in messages if isinstance(message, Said)]
        self.visits["a second guess came true"] += sum(round_.verdict.branch != () for round_ in rounds)
        self.visits["drafts of the draft model"] += sum("model:" in round_.draft.source for round_ in rounds)
        self.visits["accepted"] += self.session.stats.accepted
        self.visits["rejected"] += self.session.stats.drafted - self.session.stats.accepted

    def _clock(self) -> float:
        """Return the work done so far: a pass of the draft model costs a tenth of one of the target."""
        passes = self.tripwire.passes
        return 10.0 * passes["target"] + passes["draft"] + 0.2 * sum(toy.decoded for toy in self.toys)

    def _toys_for(self, who: str) -> Any:
        """Let the loader make the models of this test where it would make toys."""
        return patch.object(load, "ToyModel", partial(self._toy, who))

    def _toy(self, who: str, *, context_size: int, **_: object) -> WordToy:
        unlikeness = 0.0 if who == "target" else 0.8
        wire = Wire(self.tripwire, who)
        self.toys.append(WordToy(self.toy_seed, unlikeness=unlikeness, context_size=context_size, abort=wire))
        return self.toys[-1]

    def _target(self) -> WordToy:
        assert isinstance(self.session.target, WordToy)
        return self.session.target

    def _draft_models(self) -> list[DraftModel]:
        drafter = self.session.drafter
        return [part for part in drafter._all() if isinstance(part, DraftModel)] if isinstance(drafter, Hybrid) else []


def _cancelled(messages: list[Message]) -> bool:
    return bool(messages) and isinstance(messages[-1], Ended) and messages[-1].finish is Finish.CANCELLED


def _rendered(turns: Conversation) -> str:
    return "".join(f"{turn.role[0]}.{turn.text}<end>" for turn in turns) + "a."
