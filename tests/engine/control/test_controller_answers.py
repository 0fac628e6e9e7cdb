"""The controller in whole answers: what it can lose at most, in virtual time, whatever happens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from unittest.mock import patch

import pytest
from adapting import EVEN, FLAT, MODEL, ROOM, controller, free, model_cost, new, observe, played, request, select
from answering import SIZE, Make, cost_of, replayed, replayed_with_loans, trace
from checking import FIXED, ONCE, caught
from curves import PUBLISHED
from hypothesis import given, settings
from hypothesis import strategies as st
from replay import Played, Trace

from app.engine.constants import BUDGET_TOKENS, LOAN_TOKENS, PROBE_SHARE, RUN_TOKENS, TIME_SHARE
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.draft_model_cost import ModelCost
from app.engine.control.loss_budget import LossBudget, run_trust
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.round import Round
from app.engine.decoding.verify import Verdict
from drafters.base import NO_DRAFT, Draft, Drafter
from models.sampling.sampler import Sampler


class KnownDrafter:
    """A free drafter that guesses the answer, right or wrong, long or short, sure or not, as it was told to."""

    name = "free"

    def __init__(self, answer: Sequence[int], right: Sequence[bool], drafts: Sequence[tuple[int, float]]) -> None:
        self._proposals = [token if good else (token + 1) % SIZE for token, good in zip(answer, right, strict=True)]
        self._drafts = drafts
        self._start = 0

    def begin(self, prompt: Sequence[int], sampler: Sampler) -> None:  # noqa: ARG002
        self._start = len(prompt)

    def propose(self, context: Sequence[int], limit: int) -> Draft:
        place = len(context) - self._start
        length, sure = self._drafts[place % len(self._drafts)]
        tokens = tuple(self._proposals[place : place + min(limit, length)])
        return Draft(tokens, confidence=(sure,) * len(tokens), source=self.name) if tokens else NO_DRAFT

    def accept(self, emitted: Sequence[int], accepted: int) -> None:
        pass

    def close(self) -> None:
        pass


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
    is_infill: bool
    expected: float | None
    """What the draft model was seen to agree to before the first answer."""

    def played(self, make: Make = controller) -> list[tuple[Played, float]]:
        def told(curve: VerifyCurve, longest: int, model: ModelCost | None) -> AdaptiveController:
            adaptive = make(curve, longest, model)
            adaptive.use(replace(adaptive.settings, infill=self.is_infill))
            if model is not None and self.expected is not None:
                adaptive.acceptance.expect(model.name, self.expected)
            return adaptive

        free_drafter = self._free_drafter if self.free else None
        return replayed_with_loans(self.traces, self.curve, self.step, free_drafter, told)[0]

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
    proposals = st.tuples(st.sampled_from([0, 1, 4, 31]), st.sampled_from([0.2, 0.6, 0.9, 0.99]))
    free = None
    if draw(st.booleans()):
        free = (tuple(runs(draw, 60)), tuple(draw(st.lists(proposals, min_size=1, max_size=5))))
    expected = draw(st.sampled_from([None, 0.0, 0.5, 0.9, 1.0]))
    return Situation(curve, step, tuple(traces), free, draw(st.booleans()), expected)


SURE = [(0.99,), (0.9,), (0.9, 0.6, 0.97), (0.4,)]


def assert_loses_little(situation: Situation, make: Make = controller) -> None:
    """Check the bound that follows from the stake.

    A round may lose at most S = three quarters of a token's time + a share of the answer's time so far + half of what
    was saved, or less all of what was lost, and what is trusted beyond. If nothing is lost yet, it leaves the answer
    short of plain by at most that much, the share of its time and the trust; if something is, by what was lost and S
    together: the same. Most is trusted to a copy that goes on. So in the end
        seconds <= plain seconds + three quarters of a token + trust + share x seconds,
    where a draft model was lent the time to read, that much more, and as reading is rounded up to whole steps of it,
    one step more.
    """
    for answer, lent in situation.played(make):
        allowed = answer.plain_seconds + BUDGET_TOKENS + RUN_TOKENS + TIME_SHARE * answer.seconds + lent
        assert answer.seconds <= allowed + (situation.step or 0.0) + 1e-6


@given(situations())
@settings(FIXED, max_examples=250)
def test_an_answer_never_takes_longer_than_plain_by_more_than_three_tokens_a_loan_and_a_share(
    situation: Situation,
) -> None:
    assert_loses_little(situation)


class Boundless(LossBudget):
    """A budget that is never used up."""

    def left(self, one: float) -> float:  # noqa: ARG002
        return 1e9


class ForgetsSteps(LossBudget):
    """A budget that forgets what was spent before a draft is verified."""

    def spend_expected(self) -> None:
        self.spent = self._expected = 0.0

    def spend(self, seconds: float) -> None:
        """Charge nothing."""


class CountsAllSaved(LossBudget):
    """A budget that saves more than it did: it takes a round for its tokens."""

    def end_round(self, seconds: float, saved: float) -> None:
        super().end_round(seconds, saved + seconds)


def with_budget(broken: type[LossBudget]) -> Make:
    """Return what makes controllers with another loss budget."""

    def make(curve: VerifyCurve, longest: int, model: ModelCost | None = None) -> AdaptiveController:
        adaptive = controller(curve, longest, model)
        adaptive.state.losses = broken()
        return adaptive

    return make


@pytest.mark.parametrize("broken", [Boundless, ForgetsSteps, CountsAllSaved])
def test_a_controller_that_may_lose_too_much_is_noticed(broken: type[LossBudget]) -> None:
    @given(situations())
    @settings(ONCE, max_examples=1500)
    def check(situation: Situation) -> None:
        assert_loses_little(situation, with_budget(broken))

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


def test_a_draft_model_that_has_the_prompt_to_read_drafts_in_the_second_round() -> None:
    # Reading takes more than half of what may be lost: charged without being done, it would leave too little.
    answers, _ = replayed([trace([True] * 60, prompt=40)] * 3, FLAT, step=0.06)
    for answer in answers:
        assert answer.rounds[1].draft.source == "model:draft"
        assert answer.rounds[1].draft_seconds > 0.5


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
    ("name", "step", "tokens"), [("Xeon AMX 13B", 0.1, 130), ("M5 Max 12B", 0.1, 130), ("M5 Max 12B", 0.3, 450)]
)
@pytest.mark.parametrize("prose", [40, 100, 200, 400])
def test_a_draft_model_that_was_paused_is_found_again_after_prose_turned_to_code(
    name: str, step: float, tokens: int, prose: int
) -> None:
    # How soon is a matter of price: each look costs the reading of 32 tokens, out of a hundredth of the time, and of
    # its guesses a quarter comes out wrong for want of what is before them.
    agrees = [place * 0.618 % 1 < 0.3 for place in range(prose)] + [True] * 500
    ((answer,), _) = replayed([trace(agrees)], dict(PUBLISHED[name]), step)
    found = [place for place, accepted, _ in accepted_at(answer) if place >= prose and accepted > 1]
    assert found, "it was never tried again"
    assert found[0] - prose < tokens
    assert answer.speedup > 1


def test_trying_a_bad_model_again_takes_no_more_than_its_share_of_the_time() -> None:
    ((answer,), adaptive) = replayed([trace([False] * 3000, sure=(0.5,))], EVEN, step=0.2)
    assert adaptive.state.model is not None
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
    assert adaptive.state.model is not None
    assert adaptive.state.model.curve.seconds(1) == pytest.approx(0.2, rel=0.1)


def test_an_answer_that_was_stopped_inside_a_round_leaves_nothing_to_the_next() -> None:
    adaptive = new(step=0.1)
    adaptive.learn(MODEL, [(0.9, True)] * 50)
    played(adaptive)
    request(adaptive, NO_DRAFT, 1, 31)
    select(adaptive, Draft((1, 2), confidence=(0.9, 0.9), source=MODEL), ROOM)
    adaptive.begin()
    assert adaptive.state.losses_left == adaptive.state.losses.tokens, "nothing is spent"
    observe(adaptive, Round(NO_DRAFT, Verdict(0, 5, is_bonus=True), (5,), 10, 0.0, 1.0, 0.0, None, 1))
    assert MODEL not in adaptive.acceptance.counts, "the draft of the stopped round was never decided"


STEP_OF_A_TILE = {1: 1.0, 2: 1.85, 4: 2.1, 8: 2.5, 16: 3.4, 32: 6.6}
"""Passes that multiply in tiles: the second token costs nearly as much as the first, those after it little."""


def tokens_before_a_copy_is_made() -> int:
    """Return how long an answer goes on that copies, after its first drafts were wrong, before one is checked again."""
    right = [True, True, False, False] * 2 + [True] * 100
    ((answer,), _) = replayed(
        [trace([False] * len(right))],
        STEP_OF_A_TILE,
        free_drafter=lambda trace: KnownDrafter(trace.answer, right, [(4, 0.99)]),
    )
    wrong = [place for place, accepted, round_ in accepted_at(answer) if round_.draft.tokens and not accepted]
    assert wrong, "nothing was lost"
    return min(place for place, accepted, _ in accepted_at(answer) if accepted and place > wrong[0]) - wrong[0]


def test_a_copy_that_goes_on_is_made_though_the_answer_has_lost_what_it_may() -> None:
    assert tokens_before_a_copy_is_made() <= 13
    with patch("app.engine.control.policy.run_trust", lambda *_: 0.0):
        assert tokens_before_a_copy_is_made() > 15


def test_the_shares_are_small() -> None:
    assert LOAN_TOKENS == 4.0
    assert TIME_SHARE <= 0.03
    assert (BUDGET_TOKENS, LossBudget().trust(0.0)) == (0.75, 0.375)
    assert RUN_TOKENS == max(run_trust(run, VerifyCurve(EVEN)) for run in range(100)) == 2.0
    assert run_trust(4, VerifyCurve(EVEN)) == 0, "four guesses may come true by chance"
    assert PROBE_SHARE == 0.01


def test_each_answer_starts_slowly_anew() -> None:
    adaptive = new(FLAT)
    first = adaptive.plan().limit
    played(adaptive, free(4), right=4)
    assert adaptive.plan().limit > first
    adaptive.begin()
    assert adaptive.plan().limit == first
