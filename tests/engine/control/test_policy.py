"""The draft rules read a state and change nothing; the calls of a round have an order."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from typing import Any

import pytest
from adapting import EVEN, FLAT, MODEL, ROOM, free, new, played, request
from checking import caught

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.controller_state import AnswerSettings, ControllerState
from app.engine.control.explain import explain
from app.engine.control.loss_budget import LossBudget
from app.engine.control.model_choice import quickest
from app.engine.decoding.controller import RoundPlan
from app.engine.decoding.round import Round
from app.engine.decoding.verify import Verdict
from drafters.base import NO_DRAFT, Draft
from drafters.hybrid import Ask

PLAIN = Round(NO_DRAFT, Verdict(0, 5, is_bonus=True), (5,), 10, 0.0, 1.0, 0.0, None, 1)


def contents(value: Any) -> Any:
    """Return all that an object holds, down to numbers; lists of costs that are kept at hand are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: contents(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {key: contents(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [contents(each) for each in value]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return {name: contents(each) for name, each in vars(value).items() if name != "_prices"}
    return deepcopy(value)


def seasoned() -> AdaptiveController:
    """Return a controller in the middle of an answer, with a draft model and a suffix index that were right."""
    adaptive = new(EVEN, step=0.1)
    adaptive.learn(MODEL, [(0.9, True)] * 30)
    for right in (0, 3, 4, 1, 4):
        played(adaptive, free(4), right)
    request(adaptive, free(2, 0.4), 3, ROOM)
    return adaptive


QUESTIONS: dict[str, Callable[[AdaptiveController], object]] = {
    "limit": lambda adaptive: adaptive.lengths.limit(),
    "certain": lambda adaptive: adaptive.certain,
    "must decode plainly": lambda adaptive: adaptive.lengths.must_decode_plainly,
    "worth": lambda adaptive: adaptive.policy.worth(free(4)),
    "worth of an unknown source": lambda adaptive: adaptive.policy.worth(replace(free(4), source="new")),
    "verifiable": lambda adaptive: adaptive.lengths.verifiable(free(9)),
    "proven": lambda adaptive: adaptive.lengths.proven(replace(free(9), source="new")),
    "select": lambda adaptive: adaptive.lengths.select(replace(free(4), runners_up=(7, 8, 9, 10)), ROOM),
    "request": lambda adaptive: adaptive.policy.request(free(2, 0.4), 3, ROOM),
    "request of a long context": lambda adaptive: adaptive.policy.request(NO_DRAFT, 40, ROOM, skipped=9),
    "goes on": lambda adaptive: adaptive.policy.goes_on(f"{MODEL}+new", (0.9, 0.8)),
    "choice of a draft model": lambda adaptive: quickest(adaptive.state, adaptive.policy, {MODEL: 3}).name,
    "may draft": lambda adaptive: adaptive.policy.may_draft(),
    "rounds to the next probe": lambda adaptive: adaptive.policy.rounds_to_next_probe(),
    "loan": lambda adaptive: adaptive.policy.loan(adaptive.state.model, 130, ROOM),  # type: ignore[arg-type]
    "rate": lambda adaptive: adaptive.state.rate_among(3),
    "explain": lambda adaptive: explain(adaptive, AnswerSettings(3, infill=True)),
    "chance of an unknown source": lambda adaptive: adaptive.acceptance.at("new", 2, "newer"),
    "second choice": lambda adaptive: adaptive.acceptance.second("new"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_changes_nothing_and_has_one_answer(question: str) -> None:
    adaptive = seasoned()
    before = contents(adaptive.state)
    answers = [QUESTIONS[question](adaptive) for _ in range(2)]
    assert contents(adaptive.state) == before
    assert answers[0] == answers[1]


def test_a_question_that_changes_the_state_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    can_lend = LossBudget.can_lend

    def lending(budget: LossBudget, *given: float) -> bool:
        budget.lend()
        return can_lend(budget, *given)

    monkeypatch.setattr(LossBudget, "can_lend", lending)
    with caught():
        test_a_question_changes_nothing_and_has_one_answer("loan")


def test_one_state_has_one_decision_wherever_it_came_from() -> None:
    adaptive = seasoned()
    twin = new(EVEN, step=0.1)
    twin.state = deepcopy(adaptive.state)
    twin.lengths = replace(twin.lengths, state=twin.state)
    twin.policy = replace(twin.policy, state=twin.state, lengths=twin.lengths)
    for question in QUESTIONS.values():
        assert question(twin) == question(adaptive)


def test_select_and_observe_come_after_a_plan() -> None:
    adaptive = new(FLAT)
    for call in (lambda: adaptive.select(free(2), ROOM), lambda: adaptive.observe(PLAIN)):
        with pytest.raises(AssertionError, match=r"plan\(\) comes before"):
            call()
    adaptive.plan()
    adaptive.select(free(2), ROOM)
    adaptive.observe(PLAIN)
    with pytest.raises(AssertionError, match=r"plan\(\) comes before observe\(\)"):
        adaptive.observe(PLAIN)
    adaptive.plan()
    adaptive.begin()
    with pytest.raises(AssertionError, match=r"plan\(\) comes before select\(\)"):
        adaptive.select(free(2), ROOM)


def test_a_plan_settings_and_requests_are_values() -> None:
    adaptive = seasoned()
    for value, name in ((adaptive.plan(), "limit"), (adaptive.settings, "max_draft"), (adaptive.state.request, "ask")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, 0)
    assert RoundPlan().proposed is None


def test_other_settings_are_explained_without_being_used() -> None:
    adaptive = seasoned()
    told = explain(adaptive, replace(adaptive.settings, max_draft=3))
    assert (told.longest, explain(adaptive).longest) == (3, 31)
    assert adaptive.settings.max_draft == 31


def test_settings_are_replaced_as_a_whole() -> None:
    adaptive = new(FLAT, step=0.1)
    adaptive.use(AnswerSettings(5, infill=True, companions=2))
    assert adaptive.plan().limit == 5
    assert adaptive.state.rate == pytest.approx(3.0)
    adaptive.begin()
    assert adaptive.state.losses.tokens == pytest.approx(0.12), "an infill may lose less"


def test_a_request_is_paid_when_it_is_made_and_not_when_it_is_asked_for() -> None:
    adaptive = new(EVEN, step=0.1)
    played(adaptive)
    before = adaptive.state.losses_left
    wanted = adaptive.policy.request(NO_DRAFT, 8, ROOM)
    assert wanted.ask is Ask.DRAFT
    assert adaptive.state.losses_left == before
    adaptive.requested(wanted)
    assert adaptive.state.losses_left == before, "its pass may still not be made"
    adaptive.read()
    assert adaptive.state.losses_left == pytest.approx(before - wanted.reading_seconds)
    adaptive.stepped()
    assert adaptive.state.losses_left == pytest.approx(before - wanted.reading_seconds - 0.1)


def test_no_state_has_more_than_ten_attributes() -> None:
    adaptive = seasoned()
    parts = [adaptive, *(getattr(adaptive.state, each.name) for each in fields(ControllerState))]
    assert len(fields(ControllerState)) == 10
    for part in parts:
        assert len(getattr(part, "__dict__", {})) <= 10, type(part).__name__


def test_a_draft_that_is_empty_stays_what_it_is() -> None:
    adaptive = seasoned()
    empty = Draft(source="suffix")
    assert adaptive.lengths.select(empty, ROOM) is empty
    assert adaptive.policy.worth(empty) == 0.0
