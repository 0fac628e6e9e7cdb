"""The time to read a prompt, lent to a draft model that is expected to pay it back."""

from dataclasses import replace
from unittest.mock import patch

from adapting import EVEN, MODEL, controller, free, model_cost, new, played, request
from answering import Make, replayed, trace
from checking import caught
from replay import Played, Trace

from app.engine.constants import BUDGET_TOKENS, BY_CHANCE, LOAN_TOKENS, TIME_SHARE
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import Throughput
from app.engine.control.draft_model_cost import ModelCost
from app.engine.control.loss_budget import LossBudget
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.round import Round
from drafters.base import NO_DRAFT, Draft

PROMPT = 130
"""Tokens that the draft model below reads in the time of 1.65 passes, which no answer may lose by itself."""


def after_good_ones(last: Trace, good: int = 2, make: Make = controller) -> Played:
    """Answer one more prompt after some in which the draft model was right, read in time or not."""
    before = [trace([True] * 120, prompt=10)] * good
    return replayed([*before, last], EVEN, step=0.05, make=make)[0][-1]


def read_in(round_: Round) -> float:
    """Return what the draft model took in a round, in plain passes."""
    return round_.draft_seconds


def test_a_draft_model_that_has_proved_itself_is_lent_the_time_to_read_the_whole_prompt() -> None:
    last = trace([True] * 60, prompt=PROMPT)
    lent = after_good_ones(last)
    assert read_in(lent.rounds[1]) > 1.6
    assert lent.rounds[1].accepted > 1
    with patch("app.engine.control.loss_budget.LENT_TO_READ", 0.0):
        unlent = after_good_ones(last)
    assert 0 < read_in(unlent.rounds[1]) < 1.6, "the end of it alone, and guesses"
    assert lent.speedup > unlent.speedup


def test_one_that_has_shown_nothing_is_lent_nothing() -> None:
    answer = after_good_ones(trace([True] * 60, prompt=PROMPT), good=0)
    assert read_in(answer.rounds[1]) < 1


def seen_to_agree(share: float) -> Make:
    """Return what makes controllers that were told, before their first answer, how often the models agree."""

    def make(curve: VerifyCurve, longest: int, model: ModelCost | None = None) -> AdaptiveController:
        adaptive = controller(curve, longest, model)
        assert model is not None
        adaptive.acceptance.expect(model.name, share)
        return adaptive

    return make


def test_one_that_was_seen_to_agree_is_lent_the_time_in_the_first_answer() -> None:
    first = trace([True] * 60, prompt=PROMPT)
    told, strange, unlike = (
        after_good_ones(first, good=0, make=make) for make in (seen_to_agree(0.7), controller, seen_to_agree(0.1))
    )
    assert read_in(told.rounds[1]) > 1.6
    assert read_in(strange.rounds[1]) < 1
    assert read_in(unlike.rounds[1]) < 1
    assert told.speedup > strange.speedup


def test_what_was_seen_before_the_first_answer_weighs_little_against_answers() -> None:
    adaptive = seen_to_agree(1.0)(VerifyCurve(EVEN), 31, model_cost(0.05))
    assert not adaptive.acceptance.knows(MODEL), "a free draft that is worth something comes first"
    expected = adaptive.acceptance.proven(MODEL, 1)[0]
    assert 0.7 < expected < 0.8
    adaptive.learn(MODEL, [(0.9, False)] * 12)
    assert adaptive.acceptance.proven(MODEL, 1)[0] < expected / 3


def test_one_that_was_right_long_ago_is_lent_the_time_though_the_last_answers_did_without_it() -> None:
    def lends() -> bool:
        adaptive = new(step=0.05)
        adaptive.learn(MODEL, [(0.9, True)] * 50)
        for _ in range(9):
            played(adaptive)
            adaptive.begin()
        played(adaptive)
        return adaptive.policy.loan(adaptive.state.model, PROMPT, 31) is not None

    assert lends()
    with patch("app.engine.control.acceptance.LASTING", 0.0), caught():
        assert lends()


def test_what_one_guesses_that_has_read_the_end_alone_says_nothing_of_what_it_does_with_all() -> None:
    def lends_after_rejections(skipped: int) -> bool:
        adaptive = new(step=0.05)
        adaptive.learn(MODEL, [(0.9, True)] * 100)
        for _ in range(20):
            played(adaptive)
            request(adaptive, NO_DRAFT, 1, 31, skipped=skipped)
            adaptive.learn(MODEL, [(0.6, False)] * 20)
        for _ in range(4):
            for _ in range(60):
                played(adaptive)
            adaptive.begin()
        played(adaptive)
        return adaptive.policy.loan(adaptive.state.model, PROMPT, 31) is not None

    assert lends_after_rejections(skipped=700)
    assert not lends_after_rejections(skipped=0)


def test_who_has_a_window_of_the_text_alone_is_known_to_before_it_guesses() -> None:
    adaptive = new(step=0.05)
    adaptive.learn(MODEL, [(0.9, True)] * 100)
    played(adaptive)
    wish = request(adaptive, NO_DRAFT, 2000, 31)
    assert wish.window is not None
    before = adaptive.acceptance.shown(MODEL)["0 lasting"]
    adaptive.learn(MODEL, [(0.6, False)] * 20)
    assert adaptive.acceptance.shown(MODEL)["0 lasting"] == before
    adaptive.acceptance.observe(free(1), [9])
    assert adaptive.acceptance.shown("suffix")["0 lasting"] == [0.0, 1.0], "what copies has read it all"


def test_nothing_is_lent_that_an_answer_like_the_last_ones_is_too_short_to_pay_back() -> None:
    def lends_after_answers_of(said: int) -> bool:
        adaptive = new(step=0.05)
        for _ in range(9):
            for _ in range(said):
                played(adaptive)
            adaptive.begin()
        adaptive.learn(MODEL, [(0.6, place % 5 < 3) for place in range(50)])
        played(adaptive)
        return adaptive.policy.loan(adaptive.state.model, PROMPT, 31) is not None

    assert lends_after_answers_of(60)
    assert not lends_after_answers_of(4)
    with patch("app.engine.control.loss_budget.LEAST_REST", 50.0), caught():
        assert not lends_after_answers_of(4)


def test_a_loan_is_given_once_and_what_it_can_lose_is_bounded() -> None:
    def check(make: Make) -> None:
        answer = after_good_ones(trace([False] * 30, prompt=PROMPT), make=make)
        lost = answer.seconds - answer.plain_seconds
        assert 1.6 < lost <= 1.5 * BUDGET_TOKENS + LOAN_TOKENS + TIME_SHARE * answer.seconds + 0.05

    class LendsAnew(LossBudget):
        def end_round(self, seconds: float, saved: float) -> None:
            super().end_round(seconds, saved)
            self.tokens += LOAN_TOKENS

    def generous(curve: VerifyCurve, longest: int, model: ModelCost | None = None) -> AdaptiveController:
        adaptive = controller(curve, longest, model)
        adaptive.state.losses = LendsAnew()
        return adaptive

    check(controller)
    with caught():
        check(generous)


def test_after_a_loan_was_lost_a_long_copy_is_verified_all_the_same() -> None:
    def verified(budget: type[LossBudget]) -> int:
        """Return the tokens that are verified while a copy of forty tokens goes on."""
        adaptive = new({1: 1.0, 32: 1 + 31 * 0.3}, step=0.05)
        adaptive.state.losses = budget()
        adaptive.learn(MODEL, [(0.9, True)] * 50)
        played(adaptive)
        assert request(adaptive, NO_DRAFT, PROMPT, 31).is_loan
        played(adaptive, replace(free(2), source=MODEL), draft_seconds=4.5)
        return sum(len(played(adaptive, free(31, sure=0.98), right=31).draft.tokens) for _ in range(40))

    class KeptForTheModel(LossBudget):
        def lend(self) -> None:
            super().lend()
            self.tokens, self.lent = self.tokens + self.lent, 1e-9

    assert verified(LossBudget) > 300
    with caught():
        assert verified(KeptForTheModel) > 300


def test_while_a_copy_goes_on_nothing_is_lent() -> None:
    def lends(copied: int, offered: Draft) -> bool:
        """Tell whether there is a loan after a run of so many matching tokens, three a round."""
        adaptive = new(step=0.05)
        adaptive.learn(MODEL, [(0.9, True)] * 50)
        played(adaptive)
        while adaptive.state.polling.run < copied:
            played(adaptive, free(3), right=3)
        adaptive.state.throughput = Throughput()
        return request(adaptive, offered, PROMPT, 31).is_loan

    assert not lends(BY_CHANCE, free(4))
    assert lends(BY_CHANCE, NO_DRAFT), "the copy is over"
    assert lends(1, free(4)), "so few tokens may match by chance"
    with patch("app.engine.control.policy.BY_CHANCE", 99), caught():
        assert not lends(BY_CHANCE, free(4))


def test_where_passes_are_shared_nothing_is_lent() -> None:
    adaptive = new(step=0.05)
    adaptive.learn(MODEL, [(0.9, True)] * 50)
    played(adaptive)
    assert adaptive.policy.loan(adaptive.state.model, PROMPT, 31) is not None
    adaptive.begin()
    adaptive.use(replace(adaptive.settings, companions=1))
    assert adaptive.policy.loan(adaptive.state.model, PROMPT, 31) is None
