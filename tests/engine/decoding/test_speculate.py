"""The loop: its four invariants, in every round and after every way to break one off."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from checking import FIXED
from fakes import (
    Case,
    FakeClock,
    OracleDrafter,
    RaisingDrafter,
    ScriptedDrafter,
    StoppingModel,
    plain,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending, Finish
from app.engine.decoding.round import Round
from app.engine.decoding.speculate import conclude, draft_room, generate, speculate
from drafters.base import Drafter, NullDrafter
from drafters.draft_model import DraftModel
from models.base import Logits
from models.errors import Cancelled, LocalspecError
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab

VOCAB = ToyVocab()
PROMPT = VOCAB.tokenize("the cat sat")
SAMPLING = SamplingParams(seed=4)
PLAIN = plain(Case(tuple(PROMPT), SAMPLING, budget=40)).tokens


@dataclass
class Run:
    """A target whose cache holds all of the text but the pending token, and the loop over it."""

    target: ToyModel
    drafter: Drafter
    tokens: list[int]

    def rounds(self, draft_length: int = 4, budget: int | None = 30) -> Iterator[Round]:
        self.drafter.begin(self.tokens, Sampler(SAMPLING))
        ending = Ending(VOCAB, budget=budget)
        controller = FixedLength(draft_length)
        return generate(self.target, self.drafter, Sampler(SAMPLING), self.tokens, ending, controller, FakeClock())

    def assert_consistent(self) -> None:
        """Check I1, to the token."""
        assert self.target._cache == self.tokens[:-1]

    def assert_goes_on(self) -> None:
        """Check that the text so far is the plain one, and goes on as if nothing had happened."""
        said = len(self.tokens) - len(PROMPT)
        assert tuple(self.tokens[len(PROMPT) :]) == PLAIN[:said]
        for _ in self.rounds(budget=30 - said if said < 30 else 1):
            self.assert_consistent()
        assert tuple(self.tokens[len(PROMPT) :]) == PLAIN[: len(self.tokens) - len(PROMPT)]


def start(drafter: Drafter, target: ToyModel | None = None) -> Run:
    target = target or ToyModel()
    target.decode(PROMPT[:-1], rows=0)
    return Run(target, drafter, list(PROMPT))


def some_right() -> OracleDrafter:
    """Return a drafter that guesses every fourth token wrong."""
    return OracleDrafter([(token + 1) % 28 if place % 4 == 2 else token for place, token in enumerate(PLAIN)])


def near_model() -> DraftModel:
    return DraftModel(ToyModel(unlikeness=0.5), VOCAB)


@given(st.lists(st.lists(st.integers(0, 31), max_size=8), max_size=30), st.integers(0, 8))
@settings(FIXED, max_examples=100)
def test_the_cache_holds_all_but_the_pending_token_around_every_round(
    drafts: list[list[int]], draft_length: int
) -> None:
    run = start(ScriptedDrafter(drafts))
    run.assert_consistent()
    for round_ in run.rounds(draft_length):
        run.assert_consistent()
        assert 1 <= len(round_.emitted) <= len(round_.draft.tokens) + 1
        assert run.tokens[round_.prefix_length :] == list(round_.emitted)


def one_round(target: ToyModel, ending: Ending | None = None, tokens: list[int] | None = None) -> Round:
    drafter = ScriptedDrafter([(1, 2, 3)])
    text = list(PROMPT) if tokens is None else tokens
    return conclude(speculate(target, drafter, Sampler(SAMPLING), text, 3, ending or Ending(VOCAB), FakeClock()))


@pytest.mark.parametrize("held", [0, len(PROMPT) - 3, len(PROMPT)])
def test_a_round_refuses_a_cache_that_does_not_end_before_the_pending_token(held: int) -> None:
    target = ToyModel()
    if held:
        target.decode(PROMPT[:held], rows=0)
    with pytest.raises(AssertionError, match="I1"):
        one_round(target)
    assert target.length == held


class OneRowShort(ToyModel):
    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        return super().decode(tokens, rows, parents)[: rows - 1]


class NeverRewinds(ToyModel):
    def rewind(self, length: int) -> None:
        pass


class SaysNothing(Ending):
    def cut(self, emitted: Sequence[int]) -> tuple[tuple[int, ...], Finish | None]:  # noqa: ARG002
        return (), None


def test_a_round_refuses_a_pass_that_returns_too_few_rows() -> None:
    with pytest.raises(AssertionError, match="I2"):
        one_round(start(NullDrafter(), OneRowShort()).target)


def test_a_round_refuses_to_emit_nothing() -> None:
    with pytest.raises(AssertionError, match="I3"):
        one_round(start(NullDrafter()).target, SaysNothing(VOCAB))


def test_a_round_refuses_a_target_that_does_not_forget_what_was_rejected() -> None:
    with pytest.raises(AssertionError, match="I4"):
        one_round(start(NullDrafter(), NeverRewinds()).target)


def test_a_round_tells_what_happened() -> None:
    run = start(OracleDrafter([PLAIN[0], PLAIN[1], (PLAIN[2] + 1) % 28, 5]))
    round_ = next(run.rounds())
    assert round_.prefix_length == len(PROMPT)
    assert len(round_.draft.tokens) == 4
    assert (round_.verdict.accepted, round_.accepted, round_.verdict.is_bonus) == (2, 2, False)
    assert round_.emitted == PLAIN[:3]
    assert round_.finish is None


class Hours:
    """A clock that moves only while a model or drafter works, whose time it is."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def charge(self, worker: object, method: str, seconds: float) -> None:
        """Let each call of a method take so long."""
        work = getattr(worker, method)

        def charged(*args: object, **options: object) -> object:
            self.now += seconds
            return work(*args, **options)

        setattr(worker, method, charged)


def test_a_round_tells_what_took_how_long() -> None:
    clock = Hours()
    sampler, ending = Sampler(SAMPLING), Ending(VOCAB)
    run = start(OracleDrafter([PLAIN[0], PLAIN[1], (PLAIN[2] + 1) % 28, 5]))
    clock.charge(run.drafter, "propose", 1)
    clock.charge(run.drafter, "accept", 2)
    clock.charge(run.target, "decode", 4)
    clock.charge(run.target, "rewind", 8)
    clock.charge(sampler, "pick", 16)
    clock.charge(ending, "cut", 64)
    run.drafter.begin(run.tokens, sampler)
    round_ = next(generate(run.target, run.drafter, sampler, run.tokens, ending, FixedLength(4), clock))
    assert round_.draft_seconds == 1 + 2
    assert round_.verify_seconds == 4
    assert round_.host_seconds == 8 + 3 * 16 + 64
    assert clock.now == round_.draft_seconds + round_.verify_seconds + round_.host_seconds


def test_a_round_accepts_what_was_emitted_though_the_target_agreed_with_more() -> None:
    drafter = ScriptedDrafter([PLAIN[:4]])
    run = start(drafter)
    ending = Ending(VOCAB, stops=[VOCAB.piece(PLAIN[1]).decode()])
    round_ = conclude(speculate(run.target, drafter, Sampler(SAMPLING), run.tokens, 4, ending, FakeClock()))
    assert round_.verdict.accepted == 4
    assert round_.accepted == len(round_.emitted) == 2
    assert round_.finish is Finish.STOP
    assert drafter.accepts == [(PLAIN[:2], 2)]


def test_the_drafter_learns_what_was_emitted_and_how_much_of_it_was_its_own() -> None:
    drafter = ScriptedDrafter([PLAIN[:2], [(PLAIN[3] + 1) % 28], [], PLAIN[5:9]])
    run = start(drafter)
    for _ in run.rounds(budget=8):
        pass
    assert drafter.accepts == [
        (PLAIN[:3], 2),
        (PLAIN[3:4], 0),
        (PLAIN[4:5], 0),
        # The fourth draft was cut to the budget that was left.
        (PLAIN[5:8], 2),
    ]
    assert drafter.contexts == [(*PROMPT, *PLAIN[:end]) for end in (0, 3, 4, 5)]


@pytest.mark.parametrize("taken", range(12))
@pytest.mark.parametrize("make_drafter", [some_right, near_model, NullDrafter])
def test_a_consumer_that_stops_early_leaves_all_in_order(make_drafter: Callable[[], Drafter], taken: int) -> None:
    run = start(make_drafter())
    rounds = run.rounds()
    for _, round_ in zip(range(taken), rounds, strict=False):
        assert round_.finish is None or run.tokens[-1] == round_.emitted[-1]
    rounds.close()
    run.assert_consistent()
    run.assert_goes_on()


@pytest.mark.parametrize("at", [1, 2, 3, 5])
@pytest.mark.parametrize("method", ["propose", "accept"])
def test_a_drafter_that_fails_leaves_the_target_in_order(method: str, at: int) -> None:
    run = start(RaisingDrafter(some_right(), method, RuntimeError("no idea"), at))
    with pytest.raises(RuntimeError, match="no idea"):
        list(run.rounds())
    run.assert_consistent()
    run.assert_goes_on()


@pytest.mark.parametrize("at", [2, 3, 4, 7])
def test_a_pass_that_is_cancelled_leaves_the_target_in_order(at: int) -> None:
    # The first decode is the prompt's.
    run = start(some_right(), StoppingModel(stop_at=at))
    with pytest.raises(Cancelled):
        list(run.rounds())
    run.assert_consistent()
    run.assert_goes_on()


class Feverish(ToyModel):
    """A toy whose n-th decode returns no numbers, once."""

    def __init__(self, at: int, rewind_limit: int | None = None) -> None:
        super().__init__(rewind_limit=rewind_limit)
        self._left = at

    def decode(self, tokens: Sequence[int], rows: int, parents: Sequence[int] = ()) -> Logits:
        logits = super().decode(tokens, rows, parents)
        self._left -= 1
        return np.full_like(logits, np.nan) if self._left == 0 else logits


@pytest.mark.parametrize("at", [2, 3, 5])
def test_rows_that_are_no_numbers_leave_the_target_in_order(at: int) -> None:
    run = start(some_right(), Feverish(at))
    with pytest.raises(LocalspecError, match="NaN"):
        list(run.rounds())
    run.assert_consistent()
    run.assert_goes_on()


@pytest.mark.parametrize("rewind_limit", [0, 3])
def test_a_memory_that_cannot_go_back_over_a_broken_round_is_emptied_and_the_cause_is_told(rewind_limit: int) -> None:
    run = start(some_right(), Feverish(3, rewind_limit))
    with pytest.raises(LocalspecError, match="NaN"):
        list(run.rounds())
    assert run.target.length == 0


class CountingLimits(FixedLength):
    """Keeps the rounds it is told of."""

    def __init__(self, draft_length: int) -> None:
        super().__init__(draft_length)
        self.rounds: list[Round] = []

    def observe(self, round_: Round) -> None:
        self.rounds.append(round_)


def test_the_controller_is_told_of_every_round_the_last_included() -> None:
    run = start(some_right())
    controller = CountingLimits(4)
    run.drafter.begin(run.tokens, Sampler(SAMPLING))
    ending = Ending(VOCAB, budget=20)
    rounds = list(generate(run.target, run.drafter, Sampler(SAMPLING), run.tokens, ending, controller, FakeClock()))
    assert controller.rounds == rounds
    assert rounds[-1].finish is Finish.LENGTH


def test_a_limit_of_nothing_does_not_ask_the_drafter() -> None:
    drafter = ScriptedDrafter([PLAIN[:4]] * 9)
    run = start(drafter)
    assert all(not round_.draft.tokens for round_ in run.rounds(draft_length=0))
    assert drafter.limits == []
    assert len(drafter.accepts) == 30


@pytest.mark.parametrize(
    ("wanted", "room"), [(0, 0), (3, 3), (10, 9), (99, 9)], ids=["none", "some", "all but one row", "too many"]
)
def test_a_pass_of_the_pending_token_and_the_draft_keeps_to_the_rows_of_the_target(wanted: int, room: int) -> None:
    target = ToyModel()
    target.max_rows = 10
    assert draft_room(target, PROMPT, Ending(VOCAB), wanted) == room


def test_a_draft_keeps_to_the_pass_the_memory_the_context_and_the_budget() -> None:
    target = that_has_read()
    target.batch_size = 8
    assert draft_room(target, PROMPT, Ending(VOCAB), 16) == 7
    assert draft_room(target, [*PROMPT, 1], Ending(VOCAB), 16) == 6, "two tokens are pending after a sibling"
    assert draft_room(that_has_read(rewind_limit=5), PROMPT, Ending(VOCAB), 16) == 5
    assert draft_room(that_has_read(rewind_limit=0), PROMPT, Ending(VOCAB), 16) == 0
    assert draft_room(that_has_read(context_size=len(PROMPT) + 4), PROMPT, Ending(VOCAB), 16) == 4
    assert draft_room(that_has_read(context_size=len(PROMPT)), PROMPT, Ending(VOCAB), 16) == 0
    assert draft_room(that_has_read(), PROMPT, Ending(VOCAB, budget=3), 16) == 2
    assert draft_room(that_has_read(), PROMPT, Ending(VOCAB, budget=1), 16) == 0


def that_has_read(**settings: int) -> ToyModel:
    target = ToyModel(**settings)  # type: ignore[arg-type]
    target.decode(PROMPT[:-1], rows=0)
    return target


@pytest.mark.parametrize("rewind_limit", [1, 2, 5])
def test_a_target_that_goes_back_so_far_gets_no_longer_drafts(rewind_limit: int) -> None:
    drafter = ScriptedDrafter([[5] * 16] * 40)
    run = start(drafter, ToyModel(rewind_limit=rewind_limit))
    for _ in run.rounds(draft_length=16):
        run.assert_consistent()
    assert max(drafter.limits) == rewind_limit


def test_a_target_that_can_not_go_back_never_gets_a_draft() -> None:
    drafter = ScriptedDrafter([PLAIN[:4]] * 40)
    run = start(drafter, ToyModel(rewind_limit=0))
    assert all(not round_.draft.tokens for round_ in run.rounds(draft_length=16))
    assert drafter.limits == []
    assert tuple(run.tokens[len(PROMPT) :]) == PLAIN[:30]


def test_an_answer_fills_the_context_to_the_last_token_and_ends_there() -> None:
    for draft_length in (0, 1, 4, 16):
        run = start(OracleDrafter(PLAIN), ToyModel(context_size=len(PROMPT) + 10))
        rounds = list(run.rounds(draft_length, budget=None))
        assert [round_.finish for round_ in rounds] == [None] * (len(rounds) - 1) + [Finish.CONTEXT]
        # The last token has no place in the cache: it is said, and stays pending.
        assert tuple(run.tokens[len(PROMPT) :]) == PLAIN[:11]
        run.assert_consistent()


def test_the_budget_is_named_when_context_and_budget_end_together() -> None:
    run = start(NullDrafter(), ToyModel(context_size=len(PROMPT) + 10))
    assert list(run.rounds(budget=11))[-1].finish is Finish.LENGTH
