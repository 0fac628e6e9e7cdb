"""The controller: pure decisions on crafted rounds."""

from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import pytest
from adapting import EVEN, FLAT, MODEL, ROOM, STEEP, free, goes_on, model_cost, new, observe, played, request, select

from app.engine.constants import BUDGET_TOKENS, POLL_SHARE, PROBE_SHARE, TIME_SHARE
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import Throughput
from app.engine.control.loss_budget import kept_back
from app.engine.decoding.round import Round
from app.engine.decoding.verify import Verdict
from drafters.base import NO_DRAFT, Draft
from drafters.hybrid import Ask, ModelRequest

# --- what a second is worth, and how long a free draft is checked -----------------------------------------------------


def test_a_second_is_worth_what_rounds_achieve_and_never_less_than_plain_decoding() -> None:
    adaptive = new()
    assert adaptive.state.rate == 1.0
    for _ in range(60):
        played(adaptive, free(3), right=3)
    assert adaptive.state.rate == pytest.approx(4 / 1.3, rel=0.01)
    for _ in range(80):
        played(adaptive, draft_seconds=5.0)
    assert adaptive.state.rate == 1.0


def test_what_the_last_answer_gained_over_plain_decoding_counts_in_the_next_and_is_soon_forgotten() -> None:
    adaptive = new()
    for _ in range(60):
        played(adaptive, free(3), right=3)
    gain = adaptive.state.rate
    adaptive.begin()
    assert adaptive.state.rate == pytest.approx(gain)
    for _ in range(3):
        played(adaptive)
    carried = adaptive.state.rate
    assert 1.1 < carried < gain - 0.05
    for _ in range(80):
        played(adaptive)
    assert adaptive.state.rate == pytest.approx(1.0, rel=0.01)
    # The same rounds without a new answer in between are forgotten more slowly.
    for _ in range(60):
        played(adaptive, free(3), right=3)
    for _ in range(3):
        played(adaptive)
    assert adaptive.state.rate > carried + 0.02


def test_what_answers_achieved_together_is_no_measure_for_one_alone() -> None:
    rate = Throughput()
    for _ in range(30):
        rate.observe(tokens=8, seconds=2.0, plain=4.0)
    assert rate.at_least(4.0) == 4.0
    rate.begin(1.0)
    assert rate.at_least(1.0) == 1.0, "eight together gained nothing over plain decoding"


def test_a_draft_is_checked_as_far_as_it_pays() -> None:
    adaptive = new()
    falling = Draft((1, 2, 3, 4), confidence=(0.95, 0.9, 0.1, 0.9), source="suffix")
    assert select(adaptive, falling, ROOM).tokens == (1, 2)
    assert select(adaptive, falling, ROOM).confidence == (0.95, 0.9)
    assert select(adaptive, free(4, sure=0.05), ROOM).tokens == ()
    assert select(adaptive, NO_DRAFT, ROOM) == NO_DRAFT
    assert adaptive.policy.worth(free(2)) == pytest.approx(0.9 + 0.81 - 0.2)
    assert adaptive.policy.worth(free(2, sure=0.01)) == 0


def test_where_each_token_costs_a_whole_pass_nothing_is_ever_checked() -> None:
    adaptive = new(STEEP)
    assert select(adaptive, free(8, sure=0.999), ROOM).tokens == ()


def test_no_draft_is_longer_than_allowed() -> None:
    assert new(longest=7, step=0.1).plan().limit == 7
    assert new(FLAT, longest=3).plan().limit == 3
    assert new(FLAT, longest=7).plan().limit == 4, "without a draft model all drafts are copies"


def test_a_copy_starts_slowly_and_grows_with_what_came_true() -> None:
    adaptive = new(FLAT)
    lengths = [len(played(adaptive, free(31, sure=0.99), right=31).draft.tokens) for _ in range(4)]
    assert lengths[0] == 4
    assert all(later > earlier for earlier, later in pairwise(lengths) if earlier < 31)
    assert lengths[-1] == 31
    played(adaptive, free(31, sure=0.99), right=2)
    assert len(select(adaptive, free(31, sure=0.99), ROOM).tokens) == 4


def test_what_was_cut_off_a_draft_teaches_too() -> None:
    adaptive = new()
    unsure = free(1, sure=0.05)
    checked = [len(played(adaptive, unsure, right=1).draft.tokens) for _ in range(30)]
    assert checked[0] == 0
    assert checked[-1] == 1, "guesses that nobody checked came true again and again"
    assert adaptive.acceptance.counts["suffix"].right_at == [30]


def test_at_most_half_of_what_was_saved_may_be_lost_again() -> None:
    adaptive = new(FLAT)
    assert adaptive.state.losses_left == pytest.approx(BUDGET_TOKENS)
    for _ in range(5):
        played(adaptive, free(4), right=4)
    assert adaptive.state.losses.saved == pytest.approx(20.0)
    assert adaptive.state.losses_left == pytest.approx(BUDGET_TOKENS + 5 * TIME_SHARE + 10.0)
    adaptive = new(EVEN)
    played(adaptive)
    played(adaptive, free(4), right=0)
    assert adaptive.state.losses.saved == pytest.approx(-0.2)
    assert adaptive.state.losses_left == pytest.approx(BUDGET_TOKENS + 2.2 * TIME_SHARE - 0.2)


@pytest.mark.parametrize(
    ("curve", "first", "proposals"),
    [(FLAT, 4, 8), (EVEN, 2, 3), ({1: 1.0, 2: 1.4, 5: 2.2}, 1, 2), (STEEP, 0, 0), ({1: 1.0, 2: 1.1, 5: 1.1}, 4, 4)],
)
def test_a_first_draft_has_one_guess_and_what_is_cheap_and_loses_no_more_than_three_guesses_cost(
    curve: dict[int, float], first: int, proposals: int
) -> None:
    adaptive = new(curve)
    played(adaptive)
    assert len(adaptive.lengths.verifiable(free(10))) == first
    adaptive.state.polling.run = 4
    assert len(adaptive.lengths.verifiable(free(10))) == proposals
    assert BUDGET_TOKENS - kept_back(adaptive.state.curve, BUDGET_TOKENS) <= 1


@pytest.mark.parametrize(("asked", "lost"), [(True, 0.25), (False, POLL_SHARE)])
def test_a_plain_round_loses_nothing_but_the_time_of_its_drafters(asked: bool, lost: float) -> None:
    adaptive = new()
    adaptive.state.request = ModelRequest(Ask.DRAFT if asked else Ask.NOTHING)
    round_ = Round(NO_DRAFT, Verdict(0, 5, is_bonus=True), (5,), 10, 0.25, 7.0, 0.5, None, 1)
    with patch.object(adaptive.state.curve, "observe", return_value=7.0):
        observe(adaptive, round_)
    assert adaptive.state.losses.saved == -lost, "a slow moment of the machine counts as no loss"


def test_a_drafted_round_that_stalled_alone_leaves_the_answer_what_it_may_lose() -> None:
    adaptive = new(EVEN)
    for right in range(1, 9):
        adaptive.state.polling.run = right
        played(adaptive, free(right), right=right)
        played(adaptive)
    before = adaptive.state.losses_left
    draft = Draft((1, 1), None, (0.9, 0.9), "suffix")
    observe(adaptive, Round(draft, Verdict(2, 5, is_bonus=True), (1, 1, 5), 10, 0.0, 60.0, 0.0, None, 3))
    assert adaptive.state.losses_left > before - 1.0


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
        assert request(adaptive, NO_DRAFT, 1, 31).ask is Ask.NOTHING
        played(adaptive)
        assert request(adaptive, NO_DRAFT, 1, 31).ask is Ask.DRAFT


def test_a_draft_model_that_is_cheap_and_right_is_asked() -> None:
    adaptive = new(step=0.1)
    adaptive.learn(MODEL, [(0.9, True)] * 50)
    played(adaptive)
    wish = request(adaptive, NO_DRAFT, 1, 31)
    assert (wish.ask, wish.window) == (Ask.DRAFT, None)
    assert wish.length > 1
    assert request(adaptive, NO_DRAFT, 1, 2).length <= 2


@pytest.mark.parametrize(
    ("curve", "step", "right"), [(STEEP, 0.1, True), (EVEN, 1.5, True), (EVEN, 0.1, False)], ids=str
)
def test_a_draft_model_that_can_not_pay_is_not_asked(curve: dict[int, float], step: float, right: bool) -> None:
    adaptive = new(curve, step)
    adaptive.learn(MODEL, [(0.5, right)] * 50)
    played(adaptive)
    assert request(adaptive, NO_DRAFT, 1, 31).ask is Ask.NOTHING


def test_a_free_draft_that_is_worth_more_needs_no_draft_model() -> None:
    adaptive = new(step=0.3)
    adaptive.learn(MODEL, [(0.9, True)] * 50)
    played(adaptive)
    assert request(adaptive, free(1, sure=0.2), 1, 31).ask is not Ask.NOTHING
    for _ in range(6):
        played(adaptive, free(31, sure=0.99), right=31)
    assert request(adaptive, free(31, sure=0.99), 1, 31).ask is Ask.NOTHING


def test_a_draft_model_that_has_shown_nothing_is_not_tried_where_a_free_draft_is_worth_something() -> None:
    adaptive = new(step=0.1)
    played(adaptive)
    assert request(adaptive, free(2), 1, 31).ask is Ask.NOTHING
    assert request(adaptive, NO_DRAFT, 1, 31).ask is Ask.DRAFT


def test_a_draft_model_that_is_expected_to_gain_next_to_nothing_is_not_asked() -> None:
    gains = {True: list[float](), False: list[float]()}
    for thousandth in range(200, 1300, 5):
        adaptive = new(EVEN, step=thousandth / 1000)
        adaptive.learn(MODEL, [(0.9, True)] * 50)
        played(adaptive)
        gain, _ = adaptive.policy.valued(adaptive.state.model, "", [], 1, 31)
        gains[request(adaptive, NO_DRAFT, 1, 31).ask is Ask.DRAFT].append(gain)
    assert max(gains[False]) <= 0.1 < min(gains[True])
    assert any(gain > 0 for gain in gains[False]), "no gain was small enough to tell"


def test_what_a_draft_model_missed_while_others_drafted_does_not_keep_it_away() -> None:
    adaptive = new(step=0.45)
    played(adaptive)
    adaptive.learn(MODEL, [(0.7, place % 4 > 0) for place in range(40)])
    # It gains a fifth of a token, and what it missed takes half of one to read: once, for all rounds to come.
    assert adaptive.state.model is not None
    assert adaptive.state.model.reading(8) - adaptive.state.model.reading(1) == pytest.approx(0.45)
    assert [request(adaptive, NO_DRAFT, unread, 31).ask for unread in (1, 8)] == [Ask.DRAFT, Ask.DRAFT]


@pytest.mark.parametrize(("right", "read"), [(2, 3), (4, 4), (12, 12)])
def test_as_much_of_a_doubtful_draft_is_read_by_a_draft_model_as_it_will_agree_with(right: int, read: int) -> None:
    adaptive = new(FLAT, step=0.2)
    adaptive.learn(MODEL, [(0.9, True)] * 80)
    adaptive.acceptance.learn(f"{MODEL}+suffix", [(0.9, True)] * 80)
    for _ in range(40):
        played(adaptive, free(12, sure=0.5), right)
    adaptive.begin()
    adaptive.state.throughput = Throughput()
    played(adaptive)
    wish = request(adaptive, free(12, sure=0.5), 1, 31)
    assert (wish.ask, wish.length) == (Ask.CHECK, read), "three come with the last token, others take a quarter step"


def test_a_draft_that_a_model_never_agrees_with_is_not_read_by_it() -> None:
    adaptive = new(FLAT, step=0.2)
    adaptive.learn(MODEL, [(0.9, True)] * 80)
    hopeless = free(12, sure=0.01)
    for _ in range(40):
        played(adaptive, hopeless)
    assert request(adaptive, hopeless, 4, 31).ask is Ask.DRAFT


def test_where_reading_takes_all_that_may_be_lost_less_is_read() -> None:
    adaptive, cost = new(FLAT, step=0.2), model_cost(0.2)
    for _ in range(200):
        played(adaptive)
    unread = max(tokens for tokens in range(200) if cost.reading(tokens) <= adaptive.state.losses_left)
    assert 64 < unread < 96
    # Of a model that has shown nothing yet, no guess may cost more than what is left.
    wish = request(adaptive, NO_DRAFT, unread, 31)
    assert (wish.ask, wish.window) == (Ask.DRAFT, 64)
    assert wish.length > 0
    assert request(adaptive, NO_DRAFT, unread - 6, 31).window is None, "all, where that leaves something to guess with"


def test_a_long_context_is_read_from_its_end_as_far_as_its_price_may_be_lost() -> None:
    adaptive = new(FLAT, step=0.2)
    adaptive.learn(MODEL, [(0.9, True)] * 80)
    played(adaptive)
    cost = model_cost(0.2)
    for _ in range(200):
        played(adaptive)
    # A share of the answer's time so far, and most of a token's, at .05 a token read.
    wish = request(adaptive, NO_DRAFT, 2000, 31)
    assert wish.ask is Ask.DRAFT
    assert wish.window is not None
    assert wish.window in (64, 96, 128)
    assert cost.reading(wish.window) <= adaptive.state.losses_left < 2 * cost.reading(wish.window)
    assert request(adaptive, NO_DRAFT, wish.window - 16, 31).window is None, "what is affordable is read whole"


def test_what_a_draft_model_has_read_is_spent_when_its_draft_is_checked_though_it_was_wanted_no_further() -> None:
    adaptive = new(EVEN, step=0.05)
    played(adaptive)
    left, reading = adaptive.state.losses_left, model_cost(0.05).reading(44)
    wish = request(adaptive, NO_DRAFT, 44, ROOM)
    assert (wish.ask, wish.window) == (Ask.DRAFT, None)
    checked = select(adaptive, Draft((1,) * 8, confidence=(0.9,) * 8, source=MODEL), ROOM)
    assert len(checked.tokens) > 0
    assert reading + adaptive.state.curve.seconds(1 + len(checked.tokens)) - adaptive.state.curve.seconds(1) <= left


def test_a_draft_goes_on_while_it_is_sure_enough() -> None:
    adaptive = new(FLAT, step=0.2)
    for _ in range(40):
        played(adaptive)
    assert request(adaptive, NO_DRAFT, 1, 31).ask is Ask.DRAFT
    assert goes_on(adaptive, MODEL, (0.95,))
    assert goes_on(adaptive, MODEL, (0.95, 0.95))
    assert not goes_on(adaptive, MODEL, (0.95, 0.02))
    dear = new(EVEN, step=1.2)
    played(dear)
    assert not goes_on(dear, MODEL, (0.99,))


@pytest.mark.parametrize(("unread", "slower"), [(1, True), (41, False)])
def test_what_a_prompt_takes_to_read_says_nothing_about_a_step(unread: int, slower: bool) -> None:
    adaptive = new(FLAT, step=0.05)
    adaptive.learn(MODEL, [(0.9, True)] * 50)
    played(adaptive)
    assert adaptive.state.model is not None
    before = adaptive.state.model.curve.seconds(1)
    assert request(adaptive, NO_DRAFT, unread, 31).ask is Ask.DRAFT
    played(adaptive, Draft((1,), confidence=(0.9,), source=MODEL), draft_seconds=2.0)
    assert (adaptive.state.model.curve.seconds(1) > before) is slower


# --- pause, and trying again ------------------------------------------------------------------------------------------


def test_a_draft_model_that_has_failed_is_not_priced_by_what_others_guess() -> None:
    adaptive = new(FLAT, step=0.05)
    played(adaptive)
    assert request(adaptive, NO_DRAFT, 1, ROOM).ask is Ask.DRAFT
    # It fails now, and no request follows in this answer.
    for _ in range(20):
        played(adaptive, free(1), draft_seconds=0.0003)
    assert adaptive.state.model is not None
    assert adaptive.state.model.curve.seconds(1) == pytest.approx(0.05)


def paused(step: float = 0.3, curve: dict[int, float] = EVEN) -> AdaptiveController:
    """Return a controller that has seen its draft model err, again and again."""
    adaptive = new(curve, step)
    adaptive.learn(MODEL, [(sure, False) for sure in (0.3, 0.5, 0.9)] * 30)
    played(adaptive)
    return adaptive


def test_a_paused_model_is_tried_again_when_it_was_said_to_be() -> None:
    adaptive = paused()
    assert request(adaptive, NO_DRAFT, 1, 31).ask is Ask.NOTHING
    told = adaptive.policy.rounds_to_next_probe()
    assert told is not None
    assert told > 20
    waited = 0
    while request(adaptive, NO_DRAFT, 1, 31).ask is Ask.NOTHING:
        played(adaptive)
        waited += 1
        assert waited < 500
    assert waited == pytest.approx(told, abs=1)
    assert adaptive.policy.rounds_to_next_probe() is None, "it is being tried now"
    played(adaptive)
    assert request(adaptive, NO_DRAFT, 1, 31).ask is Ask.NOTHING, "once"


def test_a_try_also_waits_until_the_answer_may_lose_it() -> None:
    adaptive = paused()
    for _ in range(300):
        played(adaptive)
    # Time enough is set aside, but a draft model that was asked in vain has cost this answer more than it may lose.
    adaptive.state.request = ModelRequest(Ask.DRAFT)
    played(adaptive, draft_seconds=7.0)
    assert request(adaptive, NO_DRAFT, 1, 31).ask is Ask.NOTHING
    told = adaptive.policy.rounds_to_next_probe()
    assert told is not None
    waited = 0
    while request(adaptive, NO_DRAFT, 1, 31).ask is Ask.NOTHING:
        played(adaptive)
        waited += 1
        assert waited < 500
    assert waited > 10
    assert waited == pytest.approx(told, rel=0.04)


def test_a_try_is_short_and_looks_at_the_end_of_what_was_missed_alone() -> None:
    adaptive = paused()
    for _ in range(1000):
        played(adaptive)
    wish = request(adaptive, NO_DRAFT, 1000, 31)
    assert (wish.ask, wish.length, wish.window) == (Ask.DRAFT, 2, 32)


def test_a_try_with_much_to_read_costs_no_more_than_reading_it() -> None:
    adaptive = paused(step=0.1)
    waited = 1
    while request(adaptive, NO_DRAFT, 400, 31).ask is Ask.NOTHING:
        played(adaptive)
        waited += 1
    assert waited == pytest.approx(8 * 0.1 / PROBE_SHARE, abs=2), "32 tokens, four to a step of a tenth of a pass"


def test_before_there_is_anything_to_judge_a_model_by_a_try_costs_its_draft_too() -> None:
    adaptive = paused(step=0.08)
    while request(adaptive, NO_DRAFT, 400, 31).ask is Ask.NOTHING:
        played(adaptive)
    # The try is still due in the next answer, whose first round has said one token: it waits for the second.
    adaptive.state.probes.seconds = 8 * 0.08
    adaptive.begin()
    played(adaptive)
    assert request(adaptive, NO_DRAFT, 400, 31).ask is Ask.NOTHING
    played(adaptive)
    probe = request(adaptive, NO_DRAFT, 400, 31)
    assert (probe.ask, probe.length, probe.window, probe.is_probe) == (Ask.DRAFT, 2, 32, True)


def test_a_model_that_could_not_pay_if_it_were_always_right_is_never_tried() -> None:
    adaptive = paused(step=1.5)
    for _ in range(1000):
        played(adaptive)
    assert request(adaptive, NO_DRAFT, 1, 31).ask is Ask.NOTHING
    assert adaptive.policy.rounds_to_next_probe() is None


def test_a_model_that_is_passed_over_is_not_said_to_be_asked() -> None:
    adaptive = new(step=0.1)
    played(adaptive)
    assert request(adaptive, NO_DRAFT, 1, 31).ask is Ask.DRAFT
    assert adaptive.policy.rounds_to_next_probe() is None
    played(adaptive)
    assert request(adaptive, free(2), 1, 31).ask is Ask.NOTHING, "a free draft comes before an unproven model"
    assert adaptive.policy.rounds_to_next_probe() is not None


def test_without_a_draft_model_there_is_nothing_to_try() -> None:
    adaptive = new()
    played(adaptive)
    assert request(adaptive, free(2), 1, 31).ask is Ask.NOTHING
    assert adaptive.policy.rounds_to_next_probe() is None


def test_who_always_drafts_decodes_a_token_without_now_and_then() -> None:
    adaptive = new(FLAT)
    limits = []
    for _ in range(100):
        limits.append(adaptive.plan().limit)
        draft = free(min(4, limits[-1]))
        played(adaptive, draft, right=len(draft.tokens))
    assert [place for place, limit in enumerate(limits) if limit == 0] == [4, 9, 14, 19, 24, 49, 74, 99]


def test_a_token_without_a_draft_breaks_off_no_copy() -> None:
    adaptive = new(FLAT)
    for _ in range(4):
        played(adaptive, free(8), right=8)
    assert adaptive.plan().limit == 0
    played(adaptive)
    assert adaptive.plan().limit == 31
    played(adaptive)
    assert adaptive.plan().limit == 4, "asked, and with nothing to say, is another matter"


def test_in_a_pass_that_is_shared_there_is_no_such_token() -> None:
    adaptive = new(FLAT)
    for _ in range(30):
        played(adaptive, free(4), right=4)
    assert adaptive.plan().limit == 0
    adaptive.use(replace(adaptive.settings, companions=1))
    assert adaptive.plan().limit > 0
