"""Drafters, targets and clocks that do exactly what a test says, and the comparison that calls a text exact.

Everything runs on `ToyModel`, whose every row depends on the whole cache: a stale, missing or misplaced token shows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from app.engine.conversation.session import Session
from app.engine.decoding.controller import Controller, FixedLength
from app.engine.decoding.ending import Ending, Finish
from app.engine.decoding.round import Round
from app.engine.decoding.stats import Stats
from drafters.base import NO_DRAFT, Draft, Drafter, Hindsight, NullDrafter
from drafters.hybrid import Ask, ModelRequest
from models.base import LanguageModel, Logits, Vocab
from models.errors import Cancelled, LocalspecError
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab

LETTERS = 28
"""Token ids of `ToyVocab` below this are letters, the space and the full stop: none of them ends a text."""
END = 31
"""The end token of `ToyVocab`."""


class FakeClock:
    """A clock that advances by a fixed step at each call."""

    def __init__(self, step: float = 1.0) -> None:
        self.step = step
        self.calls = 0

    def __call__(self) -> float:
        self.calls += 1
        return self.calls * self.step


class ScriptedDrafter:
    """Proposes the given drafts, one a round, cut to the limit; then nothing."""

    name = "scripted"

    def __init__(self, drafts: Iterable[Sequence[int]] = ()) -> None:
        self._drafts = [tuple(draft) for draft in drafts]
        self.limits: list[int] = []
        """EarlyStop of each call of `propose`."""
        self.contexts: list[tuple[int, ...]] = []
        """Context of each call of `propose`."""
        self.accepts: list[tuple[tuple[int, ...], int]] = []
        """Arguments of each call of `accept`."""
        self.begun: list[tuple[int, ...]] = []
        """Prompt of each call of `begin`."""
        self.closed = 0

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:  # noqa: ARG002
        self.begun.append(tuple(prompt))

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        self.limits.append(limit)
        self.contexts.append(tuple(context))
        place = len(self.accepts)
        return Draft(self._drafts[place][:limit], source=self.name) if place < len(self._drafts) else NO_DRAFT

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        self.accepts.append((tuple(emitted), accepted))

    def close(self) -> None:
        self.closed += 1


class OracleDrafter:
    """Knows the plain answer, and proposes the next of its tokens."""

    name = "oracle"

    def __init__(self, answer: Sequence[int]) -> None:
        self._answer = tuple(answer)
        self._start = 0

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:  # noqa: ARG002
        self._start = len(prompt)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        place = len(context) - self._start
        return Draft(self._proposal(self._answer[place : place + limit]), source=self.name)

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        pass

    def close(self) -> None:
        pass

    def _proposal(self, right: tuple[int, ...]) -> tuple[int, ...]:
        return right


class AlwaysWrongDrafter(OracleDrafter):
    """Knows the plain answer, and proposes a letter that differs from it at every place."""

    name = "wrong"

    def _proposal(self, right: tuple[int, ...]) -> tuple[int, ...]:
        return tuple((token + 1) % LETTERS for token in right)


class Whimsical:
    """A control of the draft model that answers anything at all: it may waste time, and nothing else."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    @property
    def policy(self) -> "Whimsical":
        return self

    def worth(self, draft: Draft) -> float:  # noqa: ARG002
        return self._random.random()

    def choose(self, unread: Callable[[], Mapping[str, int]]) -> str:
        return self._random.choice(sorted(unread()))

    def failed(self, name: str) -> None:
        pass

    def request(self, free: Draft, unread: int, limit: int, *, skipped: int = 0) -> ModelRequest:  # noqa: ARG002
        window = self._random.choice([None, None, None, 1, 5, 20])
        return ModelRequest(self._random.choice(list(Ask)), self._random.randint(0, limit + 3), window)

    def requested(self, request: ModelRequest) -> None:
        pass

    def learn(self, source: str, hindsight: Hindsight) -> None:
        pass

    def read(self) -> None:
        pass

    def stepped(self) -> None:
        pass

    def goes_on(self, source: str, confidence: tuple[float, ...]) -> bool:  # noqa: ARG002
        return self._random.random() < 0.7


class Trims(FixedLength):
    """A controller that checks any beginning of a draft, or none of it."""

    def __init__(self, draft_length: int, seed: int) -> None:
        super().__init__(draft_length)
        self._random = Random(seed)

    def select(self, draft: Draft, room: int) -> Draft:  # noqa: ARG002
        return draft.shortened(self._random.randint(0, len(draft.tokens)))


class RaisingDrafter:
    """Passes everything on to another drafter, but raises at the n-th call of one of its methods, once."""

    def __init__(self, drafter: Drafter, method: str, error: Exception, at: int = 1) -> None:
        self.name = drafter.name
        self._drafter = drafter
        self._method = method
        self._error = error
        self._left = at

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:
        self._count("begin")
        self._drafter.begin(prompt, sampler)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        self._count("propose")
        return self._drafter.propose(context, limit)

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        self._count("accept")
        self._drafter.accept(emitted, accepted)

    def close(self) -> None:
        self._drafter.close()

    def _count(self, method: str) -> None:
        if method == self._method:
            self._left -= 1
            if self._left == 0:
                raise self._error


class StoppingModel(ToyModel):
    """A toy that raises an error at its n-th decode, and only there; it counts decodes and keeps what they were."""

    def __init__(self, seed: int = 0, *, stop_at: int = 0, unlikeness: float = 0.0, context_size: int = 512) -> None:
        super().__init__(seed, unlikeness=unlikeness, context_size=context_size)
        self.stop_at = stop_at
        """Number of the decode to stop; 0: none."""
        self.error: LocalspecError = Cancelled("Stopped.")
        self.passes: list[tuple[int, int]] = []
        """Tokens and rows of each decode."""

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        self.passes.append((len(tokens), rows))
        if len(self.passes) == self.stop_at:
            raise self.error
        return super().decode(tokens, rows, parents)


class PaddedToy(ToyModel):
    """A toy whose vocabulary is rounded up by rows that stand for no token; all other logits are as without them."""

    def __init__(self, seed: int, padding: int, fill: float, *, unlikeness: float = 0, context_size: int = 512) -> None:
        super().__init__(seed, unlikeness=unlikeness, context_size=context_size)
        self._bare, self._padded = self.vocab, ToyVocab(padding)
        self._fill = fill
        """Logit of the padding rows: real files hold any number there."""
        self.vocab = self._padded

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        self.vocab = self._bare
        try:
            logits = super().decode(tokens, rows, parents)
        finally:
            self.vocab = self._padded
        return np.pad(logits, ((0, 0), (0, self._padded.size - self._bare.size)), constant_values=self._fill)


@dataclass(frozen=True, slots=True)
class Case:
    """One answer to make: a prompt, how to sample, and when to end."""

    prompt: tuple[int, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    toy_seed: int = 0
    stops: tuple[str, ...] = ()
    budget: int | None = 24
    context_size: int = 512
    padding: int = 0
    """Padding rows of the target's vocabulary."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What must not depend on the drafter; compared by `==`."""

    tokens: tuple[int, ...]
    text: str
    finish: Finish | None
    stats: Stats = field(compare=False)
    rounds: tuple[Round, ...] = field(compare=False, repr=False)


def new_target(case: Case) -> LanguageModel:
    if case.padding:
        return PaddedToy(case.toy_seed, case.padding, -1e4, context_size=case.context_size)
    return ToyModel(case.toy_seed, context_size=case.context_size)


@dataclass(frozen=True, slots=True)
class Parts:
    """What an answer is made with; a test swaps one of them for a broken one."""

    target: Callable[[Case], LanguageModel] = new_target
    sampler: Callable[[SamplingParams], Sampler] = Sampler
    ending: Callable[[Vocab, tuple[str, ...], int | None], Ending] = lambda vocab, stops, budget: Ending(
        vocab, stops=stops, budget=budget
    )
    controller: Callable[[Sampler, int], Controller] = lambda _, draft_length: FixedLength(draft_length)


INTACT = Parts()
MakeDrafter = Callable[[Case, LanguageModel, "Answer"], Drafter]
"""Makes a drafter for a case, from its target and its plain answer."""


def run(
    case: Case, drafter: Drafter, draft_length: int, parts: Parts = INTACT, target: LanguageModel | None = None
) -> Answer:
    """Make the answer of a case in a new session, on a new target or on the one given."""
    session = Session(target or parts.target(case), drafter, FakeClock())
    return run_in(session, case, draft_length, parts)


def run_in(session: Session, case: Case, draft_length: int, parts: Parts = INTACT) -> Answer:
    """Make the answer of a case in a session that may have answered before."""
    ending = parts.ending(session.target.vocab, case.stops, case.budget)
    sampler = parts.sampler(case.sampling)
    events = session.answer(case.prompt, sampler, ending, parts.controller(sampler, draft_length))
    rounds = tuple(event for event in events if isinstance(event, Round))
    ending.text.finish()
    return Answer(
        tuple(session.tokens[len(case.prompt) :]), ending.text.take(), rounds[-1].finish, session.stats, rounds
    )


def plain(case: Case, parts: Parts = INTACT) -> Answer:
    """Return what the target says without any drafting."""
    return run(case, NullDrafter(), 0, parts)


def difference(wanted: Answer, got: Answer) -> str:
    """Say how an answer differs from the plain one; "" for an exact answer."""
    for place, (right, token) in enumerate(zip(wanted.tokens, got.tokens, strict=False)):
        if right != token:
            return f"token {place} is {token}, not {right}"
    if len(wanted.tokens) != len(got.tokens):
        return f"{len(got.tokens)} tokens, not {len(wanted.tokens)}"
    if wanted.text != got.text:
        return f"the text is {got.text!r}, not {wanted.text!r}"
    if wanted.finish != got.finish:
        return f"it ended by {got.finish}, not {wanted.finish}"
    return ""


def differences(
    cases: Iterable[Case], make_drafter: MakeDrafter, draft_lengths: Iterable[int], parts: Parts = INTACT
) -> list[str]:
    """Compare drafted answers with plain ones, both made of the same parts; [] when all are exact."""
    found = []
    for case in cases:
        wanted = plain(case, parts)
        for draft_length in draft_lengths:
            target = parts.target(case)
            got = run(case, make_drafter(case, target, wanted), draft_length, parts, target)
            if why := difference(wanted, got):
                found.append(f"draft length {draft_length}, {case}: {why}")
    return found
