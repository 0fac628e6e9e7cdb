"""How often a free draft is looked for: always where it costs nothing to speak of, else seldom where it is in vain."""

from itertools import pairwise

import pytest
from adapting import EVEN, FLAT, MODEL, ROOM, free, model_cost, new, played, request, select
from checking import caught

import app.engine.control.suffix_polling
from app.engine.constants import CHECK_AGAIN
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.suffix_polling import SuffixPolling
from app.engine.decoding.round import Round
from app.engine.decoding.verify import Verdict
from drafters.base import NO_DRAFT, Draft
from drafters.hybrid import Ask, ModelRequest

RATE = 100.0
"""Tokens a second."""
CHEAP, DEAR = 0.00009, 0.0002
"""Seconds of a look: .9 and 2 hundredths of a token's time."""


def seen(looks: SuffixPolling, proposal: Draft | None, emitted: tuple[int, ...] = (-1,), seconds: float = DEAR) -> None:
    """Let a round go by in which a guess was made and not checked; None: none was looked for."""
    verdict = Verdict(0, emitted[0], is_bonus=True)
    looks.observe(Round(NO_DRAFT, verdict, emitted, 10, seconds, 0.01, 0.0, None, 1), proposal, RATE)


def looked(looks: SuffixPolling, rounds: int, seconds: float = DEAR, proposal: Draft = NO_DRAFT) -> list[bool]:
    """Return for each round whether there was a look, all of them in vain."""
    found = []
    for _ in range(rounds):
        found.append(looks.is_due)
        seen(looks, proposal if looks.is_due else None, seconds=seconds)
    return found


@pytest.mark.parametrize("proposal", [NO_DRAFT, free(4)])
def test_a_look_that_costs_nothing_to_speak_of_is_had_in_every_round(proposal: Draft) -> None:
    assert all(looked(SuffixPolling(), 200, CHEAP, proposal))


@pytest.mark.parametrize("proposal", [NO_DRAFT, free(4)])
def test_the_longer_dear_looks_are_in_vain_the_longer_the_pause(proposal: Draft) -> None:
    looks = SuffixPolling()
    looks.begin()
    found = looked(looks, 400, proposal=proposal)
    places = [place for place, look in enumerate(found) if look]
    pauses = [after - before for before, after in pairwise(places)]
    assert places[0] == 0
    assert pauses == sorted(pauses)
    assert [pauses.count(pause) for pause in range(1, 8)] == [7, *[8] * 6]
    assert set(pauses[7 * 8 - 1 :]) == {8}


def test_the_dearer_looks_are_the_sooner_pauses_grow_and_the_longer_they_get() -> None:
    def pauses(seconds: float) -> list[int]:
        looks = SuffixPolling()
        places = [place for place, look in enumerate(looked(looks, 400, seconds)) if look]
        return [after - before for before, after in pairwise(places)]

    dear, dearer, dearest = pauses(DEAR), pauses(0.0004), pauses(0.01)
    assert (dear[-1], dearer[-1], dearest[-1]) == (8, 14, 20)
    assert (dear[8], dearer[8], dearest[8]) == (2, 3, 5), "after eight in vain"


def test_what_looks_in_vain_cost_is_a_small_share_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(looked(SuffixPolling(), 2000)) * DEAR < 0.004 * 2000 / RATE
    # Broken on purpose: nothing is too dear.
    monkeypatch.setattr(app.engine.control.suffix_polling, "POLL_SHARE", float("inf"))
    assert sum(looked(SuffixPolling(), 2000)) * DEAR > 0.015 * 2000 / RATE


def test_a_draft_that_was_worth_checking_is_followed_by_looks_in_every_round_and_one_in_vain_is_not() -> None:
    for right in (1, 0):
        looks, draft = SuffixPolling(), free(2)
        looked(looks, 300)
        verdict, emitted = Verdict(right, 9, is_bonus=False), (*draft.tokens[:right], 9)
        looks.observe(Round(draft, verdict, emitted, 10, DEAR, 0.01, 0.0, None, 3), draft, RATE)
        assert all(looked(looks, 8)) is (right > 0)


def test_a_guess_that_comes_true_is_followed_by_a_look_and_a_run_goes_on_over_rounds_without_one() -> None:
    looks = SuffixPolling()
    looked(looks, 300)
    while not looks.is_due:
        seen(looks, None)
    proposal = free(1)
    seen(looks, proposal, proposal.tokens)
    assert (looks.is_due, looks.run) == (True, 1)
    seen(looks, None)
    seen(looks, proposal, proposal.tokens)
    assert looks.run == 2
    seen(looks, proposal)
    assert (looks.is_due, looks.run) == (False, 0)


def test_an_answer_begins_with_a_look() -> None:
    looks = SuffixPolling()
    looked(looks, 300)
    seen(looks, NO_DRAFT)
    assert not looks.is_due
    looks.begin()
    assert looks.is_due


def test_in_the_next_answer_looks_come_twice_as_often_as_in_the_last_and_no_more() -> None:
    looks = SuffixPolling()
    looked(looks, 400)
    looks.begin()
    assert [place for place, look in enumerate(looked(looks, 13)) if look] == [0, 4, 8, 12]


def test_looks_however_dear_do_not_keep_back_what_is_found_in_the_end() -> None:
    def checks_after(looks: int, seconds: float) -> bool:
        adaptive = new(EVEN)
        for _ in range(looks):
            played(adaptive, draft_seconds=seconds)
        for _ in range(12):
            seen_to_be_right(adaptive)
        return len(select(adaptive, free(4), ROOM).tokens) > 0

    assert checks_after(100, 0.2)
    with pytest.MonkeyPatch.context() as broken, caught():
        broken.setattr("app.engine.control.adaptive_controller.POLL_SHARE", float("inf"))
        assert checks_after(100, 0.2)


def seen_to_be_right(adaptive: AdaptiveController) -> None:
    """Observe a round without a draft in which a copy would have been accepted."""
    adaptive.acceptance.observe(free(4), (0, 1, 2, 3))
    played(adaptive)


def limits(adaptive: AdaptiveController, rounds: int) -> list[int]:
    """Return what may be asked for in each round, where looks are dear and find nothing."""
    return [
        played(adaptive, draft_seconds=0.011 * (adaptive.plan().limit > 0)) and adaptive.plan().limit
        for _ in range(rounds)
    ]


def test_a_controller_asks_for_no_draft_in_a_pause() -> None:
    adaptive = new(FLAT)
    for _ in range(200):
        played(adaptive, draft_seconds=0.011)
    assert 8 <= sum(limit > 0 for limit in limits(adaptive, 80)) <= 12


def paused(step: float) -> AdaptiveController:
    """Return a controller with a draft model that never pays, and with looks that were long in vain."""
    adaptive = new(FLAT, step)
    adaptive.learn(MODEL, [(sure, False) for sure in (0.3, 0.5, 0.9)] * 30)
    for _ in range(200):
        played(adaptive, draft_seconds=0.011)
        request(adaptive, NO_DRAFT, 400, ROOM)
    return adaptive


def test_where_a_draft_model_is_paused_too_there_are_pauses_until_it_is_tried_again() -> None:
    adaptive = paused(step=0.1)
    adaptive.state.models.used = model_cost(20.0)
    assert adaptive.policy.rounds_to_next_probe() is None, "it can never pay"
    assert 8 <= sum(limit > 0 for limit in limits(adaptive, 80)) <= 12
    adaptive.state.models.used = model_cost(0.0001)
    assert adaptive.policy.rounds_to_next_probe() == 0
    assert all(limit == ROOM for limit in limits(adaptive, 40)[CHECK_AGAIN:])


def test_a_draft_model_that_is_asked_never_pauses() -> None:
    adaptive = paused(step=0.1)
    adaptive.state.request = ModelRequest(Ask.DRAFT)
    assert all(limit == ROOM for limit in limits(adaptive, 20))


def test_the_time_of_a_draft_model_is_not_that_of_a_look() -> None:
    looks = SuffixPolling()
    for _ in range(200):
        verdict = Verdict(0, -1, is_bonus=True)
        looks.observe(Round(NO_DRAFT, verdict, (-1,), 10, 0.005, 0.01, 0.0, None, 1), NO_DRAFT, RATE, model_ran=True)
    assert all(looked(looks, 50, CHEAP))
