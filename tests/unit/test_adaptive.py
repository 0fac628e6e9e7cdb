"""The controller: pure decisions on crafted rounds, and what it can lose at most, in virtual time, whatever happens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from checking import FIXED, ONCE, caught
from curves import PUBLISHED
from hypothesis import given, settings
from hypothesis import strategies as st
from replay import Cost, Played, ReplayModel, Trace, play

from app.engine.adaptive import _PROBE_SHARE, _STAKE, _STAKE_TOKENS, Adaptive
from app.engine.calibrate import VerifyCurve
from app.engine.model_cost import ModelCost
from app.engine.speculate import Round
from app.engine.verify import Verdict
from drafters.base import NO_DRAFT, Draft, Drafter
from drafters.draft_model import DraftModel
from drafters.hybrid import Ask, Hybrid, Wish
from models.sampling import Sampler

MODEL = "model:small"
FLAT = {1: 1.0, 32: 1.0}
ROOM = 31
EVEN = {1: 1.0, 32: 1 + 31 * 0.1}
STEEP = {1: 1.0, 2: 2.0, 32: 32.0}
PASS_OF_FOUR = {1: 1.0, 4: 1.0, 64: 16.0}
"""Passes of a draft model: a step, and what it reads at once, four tokens for the time of a step."""


def model_cost(step: float, name: str = MODEL) -> ModelCost:
    return ModelCost(name, VerifyCurve({width: step * ratio for width, ratio in PASS_OF_FOUR.items()}))


def new(curve: dict[int, float] = EVEN, step: float | None = None, longest: int = 31) -> Adaptive:
    """Return a controller that begins an answer, with a draft model whose step takes so much of a plain pass."""
    adaptive = Adaptive(VerifyCurve(curve), longest, None if step is None else model_cost(step))
    adaptive.begin()
    return adaptive


def free(length: int, sure: float = 0.9) -> Draft:
    return Draft(tuple(range(length)), confidence=(sure,) * length, source="suffix")


def played(adaptive: Adaptive, draft: Draft = NO_DRAFT, right: int = 0, draft_seconds: float = 0.0) -> Round:
    """Let a round happen: `right` tokens of a draft come true, and its pass takes what the curve says."""
    checked = adaptive.trim(draft, ROOM)
    accepted = min(right, len(checked.tokens))
    next_token = draft.tokens[accepted] if right > accepted else -1
    seconds = adaptive.curve.seconds(len(checked.tokens) + 1)
    verdict = Verdict(accepted, next_token, is_bonus=accepted == len(checked.tokens))
    emitted = (*checked.tokens[:accepted], next_token)
    round_ = Round(checked, verdict, emitted, 10, draft_seconds, seconds, 0.0, None, len(checked.tokens) + 1)
    adaptive.observe(round_)
    return round_


# --- what a second is worth, and how long a free draft is checked -----------------------------------------------------


def test_a_second_is_worth_what_rounds_achieve_and_never_less_than_plain_decoding() -> None:
    adaptive = new()
    assert adaptive.price == 1.0
    for _ in range(60):
        played(adaptive, free(3), right=3)
    assert adaptive.price == pytest.approx(4 / 1.3, rel=0.01)
    for _ in range(80):
        played(adaptive, draft_seconds=5.0)
    assert adaptive.price == 1.0
    played(adaptive, free(3), right=3)
    adaptive.begin()
    assert adaptive.price == 1.0


def test_a_draft_is_checked_as_far_as_it_pays() -> None:
    adaptive = new()
    falling = Draft((1, 2, 3, 4), confidence=(0.95, 0.9, 0.1, 0.9), source="suffix")
    assert adaptive.trim(falling, ROOM).tokens == (1, 2)
    assert adaptive.trim(falling, ROOM).confidence == (0.95, 0.9)
    assert adaptive.trim(free(4, sure=0.05), ROOM).tokens == ()
    assert adaptive.trim(NO_DRAFT, ROOM) == NO_DRAFT
    assert adaptive.worth(free(2)) == pytest.approx(0.9 + 0.81 - 0.2)
    assert adaptive.worth(free(2, sure=0.01)) == 0


def test_where_each_token_costs_a_whole_pass_nothing_is_ever_checked() -> None:
    adaptive = new(STEEP)
    assert adaptive.trim(free(8, sure=0.999), ROOM).tokens == ()


def test_no_draft_is_longer_than_allowed() -> None:
    assert new(longest=7, step=0.1).limit() == 7
    assert new(longest=3).limit() == 3
    assert new(longest=7).limit() == 4, "without a draft model there is nothing but copies, which start slowly"


def test_a_copy_starts_slowly_and_grows_with_what_came_true() -> None:
    adaptive = new(FLAT)
    lengths = [len(played(adaptive, free(31, sure=0.99), right=31).draft.tokens) for _ in range(4)]
    assert lengths[0] == 4
    assert all(later > earlier for earlier, later in pairwise(lengths) if earlier < 31)
    assert lengths[-1] == 31
    played(adaptive, free(31, sure=0.99), right=2)
    assert len(adaptive.trim(free(31, sure=0.99), ROOM).tokens) == 4


def test_what_was_cut_off_a_draft_teaches_too() -> None:
    adaptive = new()
    unsure = free(1, sure=0.05)
    checked = [len(played(adaptive, unsure, right=1).draft.tokens) for _ in range(30)]
    assert checked[0] == 0
    assert checked[-1] == 1, "guesses that nobody checked came true again and again"
    assert adaptive.acceptance.counts["suffix"].right_at == [30]


def test_at_most_half_of_what_was_saved_may_be_lost_again() -> None:
    adaptive = new(FLAT)
    assert adaptive._stake() == pytest.approx(1.0)
    for _ in range(5):
        played(adaptive, free(4), right=4)
    assert adaptive._saved == pytest.approx(20.0)
    assert adaptive._stake() == pytest.approx(1.0 + 5 * _STAKE + 10.0)
    adaptive = new(EVEN)
    played(adaptive)
    played(adaptive, free(4), right=0)
    assert adaptive._saved == pytest.approx(-0.4)
    assert adaptive._stake() == pytest.approx(1.0 + 2.4 * _STAKE - 0.4)


def test_a_plain_round_loses_nothing_but_the_time_of_its_drafters() -> None:
    adaptive = new()
    adaptive.observe(Round(NO_DRAFT, Verdict(0, 5, is_bonus=True), (5,), 10, 0.25, 7.0, 0.5, None, 1))
    assert adaptive._saved == -0.25, "that the machine was slow for a moment is nobody's loss"


# --- when a draft model is asked --------------------------------------------------------------------------------------


def test_the_first_token_of_an_answer_waits_for_few_guesses_and_those_after_it_for_many() -> None:
    adaptive = new(EVEN)
    for _ in range(20):
        played(adaptive, free(8), right=8)
    adaptive.begin()
    lengths = [len(played(adaptive, free(8), right=8).draft.tokens) for _ in range(3)]
    assert lengths[0] == 2, "each row costs a tenth, and a quarter of a pass may be lost"
    assert lengths[1:] == [6, 8]
    adaptive = new(STEEP)
    assert played(adaptive, free(1, 0.999), right=1).draft.tokens == ()


def test_the_first_token_of_an_answer_never_waits_for_a_draft_model() -> None:
    adaptive = new(FLAT, step=0.01)
    adaptive.learn(MODEL, [(0.99, True)] * 200)
    for _ in range(3):
        adaptive.begin()
        assert adaptive.wish(NO_DRAFT, 1, 31) == Wish()
        played(adaptive)
        assert adaptive.wish(NO_DRAFT, 1, 31).ask is Ask.DRAFT


def test_a_draft_model_that_is_cheap_and_right_is_asked() -> None:
    adaptive = new(step=0.1)
    adaptive.learn(MODEL, [(0.9, True)] * 50)
    played(adaptive)
    wish = adaptive.wish(NO_DRAFT, 1, 31)
    assert (wish.ask, wish.window) == (Ask.DRAFT, None)
    assert wish.length > 1
    assert adaptive.wish(NO_DRAFT, 1, 2).length <= 2


@pytest.mark.parametrize(
    ("curve", "step", "right"), [(STEEP, 0.1, True), (EVEN, 1.5, True), (EVEN, 0.1, False)], ids=str
)
def test_a_draft_model_that_can_not_pay_is_not_asked(curve: dict[int, float], step: float, right: bool) -> None:
    adaptive = new(curve, step)
    adaptive.learn(MODEL, [(0.5, right)] * 50)
    played(adaptive)
    assert adaptive.wish(NO_DRAFT, 1, 31) == Wish()


def test_a_free_draft_that_is_worth_more_needs_no_draft_model() -> None:
    adaptive = new(step=0.3)
    adaptive.learn(MODEL, [(0.9, True)] * 50)
    played(adaptive)
    assert adaptive.wish(free(1, sure=0.2), 1, 31).ask is not Ask.NOTHING
    for _ in range(6):
        played(adaptive, free(31, sure=0.99), right=31)
    assert adaptive.wish(free(31, sure=0.99), 1, 31) == Wish()


def test_a_draft_model_that_has_shown_nothing_is_not_tried_where_a_free_draft_is_worth_something() -> None:
    adaptive = new(step=0.1)
    played(adaptive)
    assert adaptive.wish(free(2), 1, 31) == Wish()
    assert adaptive.wish(NO_DRAFT, 1, 31).ask is Ask.DRAFT


def test_a_free_draft_that_is_doubtful_is_checked_by_a_draft_model_that_knows() -> None:
    adaptive = new(FLAT, step=0.2)
    adaptive.learn(MODEL, [(0.9, True)] * 80)
    adaptive.acceptance.learn(f"{MODEL}+suffix", [(0.9, True)] * 80)
    for _ in range(40):
        played(adaptive, free(12, sure=0.5), right=0)
    wish = adaptive.wish(free(12, sure=0.5), 1, 31)
    assert wish.ask is Ask.CHECK
    assert wish.length > 2


def test_a_long_context_is_read_from_its_end_as_far_as_its_price_may_be_lost() -> None:
    adaptive = new(FLAT, step=0.2)
    adaptive.learn(MODEL, [(0.9, True)] * 80)
    played(adaptive)
    cost = model_cost(0.2)
    for _ in range(200):
        played(adaptive)
    # A share of the answer's time so far, and a token's, at .05 a token read.
    wish = adaptive.wish(NO_DRAFT, 2000, 31)
    assert wish.ask is Ask.DRAFT
    assert wish.window is not None
    assert wish.window in (64, 96, 128)
    assert cost.reading(wish.window) <= adaptive._stake() < 2 * cost.reading(wish.window)
    assert adaptive.wish(NO_DRAFT, wish.window - 8, 31).window is None, "what is affordable is read whole"


def test_a_draft_goes_on_while_it_is_sure_enough() -> None:
    adaptive = new(FLAT, step=0.2)
    for _ in range(40):
        played(adaptive)
    assert adaptive.wish(NO_DRAFT, 1, 31).ask is Ask.DRAFT
    assert adaptive.goes_on(MODEL, (0.95,))
    assert adaptive.goes_on(MODEL, (0.95, 0.95))
    assert not adaptive.goes_on(MODEL, (0.95, 0.02))
    dear = new(EVEN, step=1.2)
    played(dear)
    assert not dear.goes_on(MODEL, (0.99,))


# --- pause, and trying again ------------------------------------------------------------------------------------------


def paused(step: float = 0.3, curve: dict[int, float] = EVEN) -> Adaptive:
    """Return a controller that has seen its draft model err, again and again."""
    adaptive = new(curve, step)
    adaptive.learn(MODEL, [(sure, False) for sure in (0.3, 0.5, 0.9)] * 30)
    played(adaptive)
    return adaptive


def test_a_paused_model_is_tried_again_when_it_was_said_to_be() -> None:
    adaptive = paused()
    assert adaptive.wish(NO_DRAFT, 1, 31) == Wish()
    told = adaptive.rounds_to_next_try()
    assert told is not None
    assert told > 20
    waited = 0
    while adaptive.wish(NO_DRAFT, 1, 31).ask is Ask.NOTHING:
        played(adaptive)
        waited += 1
        assert waited < 500
    assert waited == pytest.approx(told, abs=1)
    assert adaptive.rounds_to_next_try() is None, "it is being tried now"
    played(adaptive)
    assert adaptive.wish(NO_DRAFT, 1, 31) == Wish(), "once"


def test_a_try_also_waits_until_the_answer_may_lose_it() -> None:
    adaptive = paused()
    for _ in range(300):
        played(adaptive)
    # Time enough is set aside, but looking for drafts in vain has cost this answer more than it may lose.
    played(adaptive, draft_seconds=7.0)
    assert adaptive.wish(NO_DRAFT, 1, 31) == Wish()
    told = adaptive.rounds_to_next_try()
    assert told is not None
    waited = 0
    while adaptive.wish(NO_DRAFT, 1, 31).ask is Ask.NOTHING:
        played(adaptive)
        waited += 1
        assert waited < 500
    assert waited > 10
    assert waited == pytest.approx(told, abs=2)


def test_a_try_is_short_and_looks_at_the_end_of_what_was_missed_alone() -> None:
    adaptive = paused()
    for _ in range(1000):
        played(adaptive)
    wish = adaptive.wish(NO_DRAFT, 1000, 31)
    assert (wish.ask, wish.length, wish.window) == (Ask.DRAFT, 2, 32)


def test_a_model_that_could_not_pay_if_it_were_always_right_is_never_tried() -> None:
    adaptive = paused(step=1.5)
    for _ in range(1000):
        played(adaptive)
    assert adaptive.wish(NO_DRAFT, 1, 31) == Wish()
    assert adaptive.rounds_to_next_try() is None


def test_a_model_that_is_passed_over_is_not_said_to_be_asked() -> None:
    adaptive = new(step=0.1)
    played(adaptive)
    assert adaptive.wish(NO_DRAFT, 1, 31).ask is Ask.DRAFT
    assert adaptive.rounds_to_next_try() is None
    played(adaptive)
    assert adaptive.wish(free(2), 1, 31) == Wish(), "a free draft is worth more than one who has shown nothing"
    assert adaptive.rounds_to_next_try() is not None


def test_without_a_draft_model_there_is_nothing_to_try() -> None:
    adaptive = new()
    played(adaptive)
    assert adaptive.wish(free(2), 1, 31) == Wish()
    assert adaptive.rounds_to_next_try() is None


# --- whole answers, in virtual time -----------------------------------------------------------------------------------


class KnownDrafter:
    """A free drafter that guesses the answer, right or wrong, long or short, sure or not, as it was told to."""

    name = "free"

    def __init__(self, answer: Sequence[int], right: Sequence[bool], drafts: Sequence[tuple[int, float]]) -> None:
        self._guesses = [token if good else (token + 1) % SIZE for token, good in zip(answer, right, strict=True)]
        self._drafts = drafts
        self._start = 0

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:  # noqa: ARG002
        self._start = len(prompt)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        place = len(context) - self._start
        length, sure = self._drafts[place % len(self._drafts)]
        tokens = tuple(self._guesses[place : place + min(limit, length)])
        return Draft(tokens, confidence=(sure,) * len(tokens), source=self.name) if tokens else NO_DRAFT

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        pass

    def close(self) -> None:
        pass


SIZE = 100


def trace(agrees: Sequence[bool], prompt: int = 20, sure: Sequence[float] = (0.9, 0.6, 0.97)) -> Trace:
    """Return an answer of which the draft model guesses the given places right."""
    answer = [(7 * place * place + place) % SIZE for place in range(len(agrees))]
    guess = [token if agree else (token + 1) % SIZE for token, agree in zip(answer, agrees, strict=True)]
    sureness = tuple(sure[place % len(sure)] for place in range(len(agrees)))
    return Trace("made up", "chat", tuple(range(prompt)), tuple(answer), tuple(guess), sureness, SIZE)


def cost_of(curve: dict[int, float] | VerifyCurve) -> Cost:
    curve = curve if isinstance(curve, VerifyCurve) else VerifyCurve(curve)
    table = [curve.seconds(width) for width in range(1, 65)]
    return lambda width, _: table[width - 1]


Make = Callable[[VerifyCurve, int, ModelCost | None], Adaptive]


def replayed(
    traces: Sequence[Trace],
    curve: dict[int, float],
    step: float | None = None,
    free_drafter: Callable[[Trace], Drafter] | None = None,
    make: Make = Adaptive,
    cost: Cost | None = None,
    draft_cost: Cost | None = None,
) -> tuple[list[Played], Adaptive]:
    """Answer one trace after the other with one controller, as in a chat; return the answers and the controller."""
    price = None if step is None else model_cost(step, "model:draft")
    adaptive = make(VerifyCurve(curve), 31, price)

    def arm(target: ReplayModel, draft: ReplayModel, current: Trace) -> tuple[Drafter, Adaptive]:
        model = None if step is None else DraftModel(draft, target.vocab)
        if model is not None:
            draft.skipped = lambda: model.skipped
        return Hybrid([free_drafter(current)] if free_drafter else [], model, adaptive), adaptive

    answers = [
        play(
            current,
            lambda target, draft, current=current: arm(target, draft, current),  # type: ignore[misc]
            cost or cost_of(curve),
            draft_cost or cost_of(model_cost(step or 0.1).curve),
        )
        for current in traces
    ]
    return answers, adaptive


def runs(draw: st.DrawFn, length: int) -> list[bool]:
    """Draw stretches of right and wrong guesses: prose and code."""
    result: list[bool] = []
    while len(result) < length:
        result += [draw(st.booleans())] * draw(st.integers(1, 40))
    return result[:length]


@dataclass(frozen=True, slots=True)
class Situation:
    """A machine, and answers to give on it."""

    curve: dict[int, float]
    step: float | None
    traces: tuple[Trace, ...]
    free: tuple[tuple[bool, ...], tuple[tuple[int, float], ...]] | None

    def played(self, make: Make = Adaptive) -> list[Played]:
        return replayed(self.traces, self.curve, self.step, self._free_drafter if self.free else None, make)[0]

    def _free_drafter(self, trace: Trace) -> Drafter:
        assert self.free is not None
        right, drafts = self.free
        return KnownDrafter(trace.answer, [right[place % len(right)] for place in range(len(trace.answer))], drafts)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """Draw any machine whose passes take no less than one of one token, any texts, and any drafters for them."""
    slope = draw(st.sampled_from([0.0, 0.02, 0.1, 0.4, 1.0]))
    bumps = draw(st.lists(st.sampled_from([0.8, 1.0, 1.0, 1.0, 1.3]), min_size=31, max_size=31))
    curve = {1: 1.0, **{w: max(1.0, bump * (1 + slope * (w - 1))) for w, bump in enumerate(bumps, start=2)}}
    step = draw(st.sampled_from([None, 0.05, 0.15, 0.3, 0.5]))
    traces = []
    for _ in range(draw(st.integers(1, 2))):
        agrees = runs(draw, draw(st.sampled_from([1, 4, 13, 40, 120])))
        traces.append(trace(agrees, prompt=draw(st.sampled_from([2, 10, 80, 400])), sure=draw(st.sampled_from(SURE))))
    guesses = st.tuples(st.sampled_from([0, 1, 4, 31]), st.sampled_from([0.2, 0.6, 0.9, 0.99]))
    free = None
    if draw(st.booleans()):
        free = (tuple(runs(draw, 60)), tuple(draw(st.lists(guesses, min_size=1, max_size=5))))
    return Situation(curve, step, tuple(traces), free)


SURE = [(0.99,), (0.9,), (0.9, 0.6, 0.97), (0.4,)]


def assert_loses_little(situation: Situation, make: Make = Adaptive) -> None:
    """Check the bound that follows from the stake.

    A round may lose at most S = one token's time + a share of the answer's time so far + half of what was saved, or
    less all of what was lost. If nothing is lost yet, it leaves the answer short of plain by at most one token and the
    share of its time; if something is, by what was lost and S together: the same. So in the end
        seconds <= plain seconds + one token + share x seconds,
    and as reading is rounded up to whole steps of the draft model, one step more.
    """
    for answer in situation.played(make):
        allowed = answer.plain_seconds + _STAKE_TOKENS + _STAKE * answer.seconds + (situation.step or 0.0)
        assert answer.seconds <= allowed + 1e-6


@given(situations())
@settings(FIXED, max_examples=250)
def test_an_answer_never_takes_longer_than_plain_by_more_than_a_token_and_a_small_share(situation: Situation) -> None:
    assert_loses_little(situation)


class Careless(Adaptive):
    """A controller that stakes everything it expects to gain."""

    def _stake(self) -> float:
        return 1e9


class CountsNoSteps(Adaptive):
    """A controller that forgets what it spent before a draft is checked."""

    def _spend_pass(self) -> None:
        self._spent = self._pass_ahead = 0.0


class StakesAllSavings(Adaptive):
    """A controller that thinks it saved more than it did: it takes a round for its tokens."""

    def observe(self, round_: Round) -> None:
        super().observe(round_)
        self._saved += round_.verify_seconds


@pytest.mark.parametrize("broken", [Careless, CountsNoSteps, StakesAllSavings])
def test_a_controller_that_stakes_too_much_is_noticed(broken: type[Adaptive]) -> None:
    @given(situations())
    @settings(ONCE, max_examples=400)
    def check(situation: Situation) -> None:
        assert_loses_little(situation, broken)

    with caught():
        check()


def accepted_at(answer: Played) -> list[tuple[int, int, Round]]:
    """Return (tokens said before it, tokens accepted, round) of each round."""
    places, told = 0, []
    for round_ in answer.rounds:
        told.append((places, round_.accepted, round_))
        places += len(round_.emitted)
    return told


def test_the_first_round_of_an_answer_waits_for_no_draft_model() -> None:
    answers, _ = replayed([trace([True] * 60)] * 3, EVEN, step=0.05)
    for answer in answers:
        assert answer.rounds[0].draft_seconds == 0
        assert sum(round_.accepted for round_ in answer.rounds) > 20


PROSE, CODE = 150, 150


@pytest.mark.parametrize("name", PUBLISHED)
def test_free_guesses_are_used_again_and_left_again_within_tens_of_tokens(name: str) -> None:
    right = [False] * PROSE + [True] * CODE + [False] * PROSE
    ((answer,), _) = replayed(
        [trace([False] * len(right))],
        dict(PUBLISHED[name]),
        free_drafter=lambda trace: KnownDrafter(trace.answer, right, [(8, 0.6)]),
    )
    told = accepted_at(answer)
    assert min(place for place, accepted, _ in told if place >= PROSE and accepted) - PROSE < 70

    def speedup(first: int, last: int) -> float:
        rounds = [round_ for place, _, round_ in told if first <= place < last]
        return sum(len(round_.emitted) for round_ in rounds) / sum(round_.verify_seconds for round_ in rounds)

    assert speedup(0, PROSE) > 0.95
    assert speedup(PROSE, PROSE + CODE) > 1.04
    assert speedup(PROSE + CODE + 60, len(right)) > 0.88


@pytest.mark.parametrize(
    ("name", "step", "tokens"), [("Xeon AMX 13B", 0.1, 120), ("M5 Max 12B", 0.1, 120), ("M5 Max 12B", 0.3, 260)]
)
@pytest.mark.parametrize("prose", [40, 100, 200, 400])
def test_a_draft_model_that_was_paused_is_found_again_after_prose_turned_to_code(
    name: str, step: float, tokens: int, prose: int
) -> None:
    # How soon is a matter of price: each look costs the reading of 32 tokens, out of a hundredth of the time.
    agrees = [place * 0.618 % 1 < 0.3 for place in range(prose)] + [True] * 300
    ((answer,), _) = replayed([trace(agrees)], dict(PUBLISHED[name]), step)
    found = [place for place, accepted, _ in accepted_at(answer) if place >= prose and accepted > 1]
    assert found, "it was never tried again"
    assert found[0] - prose < tokens
    assert answer.speedup > 1


def test_trying_a_bad_model_again_takes_no_more_than_its_share_of_the_time() -> None:
    ((answer,), adaptive) = replayed([trace([False] * 3000, sure=(0.5,))], EVEN, step=0.2)
    assert adaptive.model is not None
    settled = [round_ for place, _, round_ in accepted_at(answer) if place > 100]
    spent = sum(round_.draft_seconds + round_.verify_seconds - 1 for round_ in settled)
    looks = sum(round_.draft_seconds > 0 for round_ in settled)
    assert looks > 3
    assert spent <= 0.0101 * sum(round_.draft_seconds + round_.verify_seconds for round_ in settled) + 3
    assert answer.speedup > 0.98


def test_a_draft_model_that_became_slower_is_seen_to_be_also_after_it_had_much_to_read() -> None:
    ((answer,), adaptive) = replayed(
        [trace([True] * 400, prompt=100)], EVEN, step=0.1, draft_cost=cost_of(model_cost(0.2).curve)
    )
    assert sum(round_.draft.source == "model:draft" for round_ in answer.rounds) > 30
    assert adaptive.model is not None
    assert adaptive.model.curve.seconds(1) == pytest.approx(0.2, rel=0.1)


def test_an_answer_that_was_stopped_inside_a_round_leaves_nothing_to_the_next() -> None:
    adaptive = new(step=0.1)
    adaptive.learn(MODEL, [(0.9, True)] * 50)
    played(adaptive)
    adaptive.wish(NO_DRAFT, 1, 31)
    adaptive.trim(Draft((1, 2), confidence=(0.9, 0.9), source=MODEL), ROOM)
    adaptive.begin()
    stake = adaptive._stake()
    assert stake == pytest.approx(1.0)
    adaptive.observe(Round(NO_DRAFT, Verdict(0, 5, is_bonus=True), (5,), 10, 0.0, 1.0, 0.0, None, 1))
    assert MODEL not in adaptive.acceptance.counts, "the draft of the stopped round was never decided"


def test_the_shares_are_small() -> None:
    assert _STAKE <= 0.03
    assert _STAKE_TOKENS == 1.0
    assert _PROBE_SHARE == 0.01


def test_each_answer_starts_slowly_anew() -> None:
    adaptive = new(FLAT)
    first = adaptive.limit()
    played(adaptive, free(4), right=4)
    assert adaptive.limit() > first
    adaptive.begin()
    assert adaptive.limit() == first
