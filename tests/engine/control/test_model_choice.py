"""Choice among several draft models: what decides it, when it is made anew, and what it may not cost."""

from collections.abc import Mapping
from statistics import geometric_mean

import pytest
from adapting import EVEN, free, model_cost, new, played, request
from checking import caught
from model_choice import MODEL, SITUATIONS, Situation, by_class, pairs
from model_choice import TEXT as SMALL

from app.engine.constants import CHANGE_WORTH
from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings, ControllerState
from app.engine.control.draft_model_cost import ModelCost
from app.engine.control.expected_gain import best_rate
from app.engine.control.explain import explain
from app.engine.control.model_choice import _seconds_of_rest
from app.engine.costs.pass_cost import VerifyCurve
from drafters.base import NO_DRAFT, Draft

NAMED, TEXT = "model:named", "text:small"
KNOWN = {NAMED: 1, TEXT: 1}


def both(named: float = 0.3, text: float = 0.1, curve: dict[int, float] = EVEN) -> AdaptiveController:
    """Return a controller with two draft models of which a step takes so much of a token, past the first round."""
    costs = model_cost(named, NAMED), model_cost(text, TEXT)
    adaptive = AdaptiveController(VerifyCurve(curve), AnswerSettings(31), *costs)
    adaptive.begin()
    played(adaptive)
    return adaptive


def accepted(adaptive: AdaptiveController, name: str, right: int, rounds: int = 30) -> None:
    """Let a draft model draft four tokens a round, of which so many are right."""
    for _ in range(rounds):
        played(adaptive, Draft((1, 2, 3, 4), confidence=(0.8,) * 4, source=name), right)


def chosen(adaptive: AdaptiveController, unread: Mapping[str, int] = KNOWN) -> str:
    """Return the draft model that is chosen, as if none had been in this answer."""
    adaptive.state.models.begin()
    return adaptive.choose(lambda: unread)


@pytest.mark.parametrize(
    ("agreed", "wanted"),
    [((0.7, 0.7), TEXT), ((0.9, 0.6), NAMED), ((0.1, 0.1), NAMED), ((0.95, 0.2), NAMED)],
)
def test_acceptance_and_cost_decide_together(agreed: tuple[float, float], wanted: str) -> None:
    adaptive = both(named=0.2, text=0.1)
    for name, share in zip((NAMED, TEXT), agreed, strict=True):
        adaptive.acceptance.expect(name, share)
    assert chosen(adaptive) == wanted


def test_between_equals_the_first_drafts() -> None:
    adaptive = both(named=0.2, text=0.2)
    assert chosen(adaptive) == NAMED
    assert adaptive.state.model is not None
    assert adaptive.state.model.name == NAMED


def test_a_small_gain_is_not_worth_a_change() -> None:
    def after(text: float) -> tuple[float, str]:
        adaptive = both(named=0.2, text=text)
        for name in KNOWN:
            adaptive.acceptance.expect(name, 0.8)
        now, other = (
            best_rate(adaptive.acceptance.usual(model.name, 31), adaptive.state.curve, model.draft_seconds(1))
            for model in adaptive.state.models.all
        )
        return 1 - now / other, chosen(adaptive)

    gains = [after(text) for text in (0.199, 0.19, 0.17, 0.15, 0.1, 0.05, 0.01)]
    assert {name for gain, name in gains if gain < CHANGE_WORTH} == {NAMED}
    assert {name for gain, name in gains if gain > CHANGE_WORTH} == {TEXT}


def test_one_that_is_wrong_lately_makes_way_and_comes_back_by_its_long_run() -> None:
    adaptive = both(named=0.2, text=0.2)
    adaptive.acceptance.expect(TEXT, 0.6)
    accepted(adaptive, NAMED, 4)
    assert chosen(adaptive) == NAMED
    accepted(adaptive, NAMED, 0, rounds=40)
    assert chosen(adaptive) == TEXT
    accepted(adaptive, TEXT, 0, rounds=60)
    for _ in range(6):
        adaptive.begin()
    played(adaptive)
    # What was seen lately is forgotten; over all, most of its drafts were right.
    assert chosen(adaptive) == NAMED


def test_what_the_other_must_read_counts_and_must_be_affordable() -> None:
    def after(unread: int, saved: float) -> str:
        adaptive = both(named=0.3, text=0.05)
        for name in KNOWN:
            adaptive.acceptance.expect(name, 0.8)
        adaptive.state.losses.lent = 1e-9
        adaptive.state.losses.saved = saved
        return chosen(adaptive, {NAMED: 1, TEXT: unread})

    assert after(10, 0.0) == TEXT
    assert after(300, 0.0) == NAMED, "the answer can't afford to read so much"
    assert after(300, 100.0) == TEXT
    assert after(30000, 10000.0) == NAMED, "reading takes longer than its drafts save"


def test_the_choice_is_made_once_in_an_answer_after_its_first_token() -> None:
    adaptive, asked = both(), list[int]()

    def unread() -> Mapping[str, int]:
        asked.append(adaptive.state.progress.rounds)
        return KNOWN

    for _ in range(2):
        adaptive.begin()
        for _ in range(20):
            adaptive.choose(unread)
            played(adaptive)
    assert asked == [1, 1]


def test_after_one_failed_the_other_is_left_in_this_answer_alone() -> None:
    adaptive = both(named=0.2, text=0.02)
    for name in KNOWN:
        adaptive.acceptance.expect(name, 0.8)
    assert chosen(adaptive) == TEXT
    request(adaptive, NO_DRAFT, 5, 31)
    adaptive.failed(TEXT)
    assert not adaptive.state.model_is_asked
    assert adaptive.choose(lambda: {NAMED: 1}) == NAMED
    assert explain(adaptive).waiting == ()
    adaptive.failed(NAMED)
    assert adaptive.state.models.working == ()
    adaptive.begin()
    played(adaptive)
    assert chosen(adaptive) == TEXT
    assert explain(adaptive).waiting == (NAMED,)


def test_a_change_forgets_what_was_asked_of_the_other() -> None:
    adaptive = both(named=0.2, text=0.02)
    for name in KNOWN:
        adaptive.acceptance.expect(name, 0.8)
    request(adaptive, NO_DRAFT, 5, 31)
    assert adaptive.state.model_is_asked
    assert chosen(adaptive, {NAMED: 1, TEXT: 7}) == TEXT
    assert (adaptive.state.model_is_asked, adaptive.state.request.unread) == (False, 7)
    assert adaptive.state.model is not None
    assert adaptive.state.model.name == TEXT


def test_the_long_run_of_both_is_learnt_whichever_drafts() -> None:
    adaptive = both()
    accepted(adaptive, TEXT, 4, rounds=3)
    assert adaptive.acceptance.counts[TEXT].right_at[0] == 3
    assert adaptive.acceptance.usual(TEXT, 1)[0] > adaptive.acceptance.usual("text:never seen", 1)[0]


def test_the_explanation_names_the_one_that_waits_and_prices_each_by_its_own_cost() -> None:
    adaptive = both(named=0.3, text=0.1)
    accepted(adaptive, TEXT, 2, rounds=1)
    accepted(adaptive, NAMED, 2, rounds=1)
    played(adaptive, free(2))
    told = explain(adaptive)
    assert (told.model, told.waiting) == (NAMED, (TEXT,))
    needed = {source.name: source.needed for source in told.sources}
    named, text = needed[NAMED], needed[TEXT]
    assert named is not None
    assert text is not None
    assert named > text
    assert explain(new(EVEN, step=0.1)).waiting == ()


@pytest.mark.parametrize("situation", [SITUATIONS[0], SITUATIONS[2]], ids=["the starter is cheap", "the 0.5B is cheap"])
def test_in_playback_both_are_nearly_as_fast_as_the_better_one(situation: Situation) -> None:
    named, text, either = (
        by_class(situation, names, pairs(0.0), mixed=False) for names in ([MODEL], [SMALL], [MODEL, SMALL])
    )
    best = max(geometric_mean(each.values()) for each in (named, text))
    assert geometric_mean(either.values()) > 0.97 * best
    assert min(either.values()) > 0.98


def test_a_choice_that_is_always_wrong_is_noticed_in_playback(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowest(state: ControllerState, _: object, unread: Mapping[str, int]) -> ModelCost:
        return max(state.models.all, key=lambda model: _seconds_of_rest(state, model, unread[model.name]))

    monkeypatch.setattr("app.engine.control.adaptive_controller.quickest", slowest)
    with caught():
        test_in_playback_both_are_nearly_as_fast_as_the_better_one(SITUATIONS[2])
