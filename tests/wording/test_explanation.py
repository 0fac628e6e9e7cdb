"""Why drafting does what it does, in words and as JSON: one example of each state, and all numbers from one place."""

import json
from dataclasses import replace

import pytest
from adapting import controller

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.draft_model_cost import ModelCost
from app.engine.control.explain import Explanation, SourceAccount, WidthCost, explain
from app.engine.costs.pass_cost import VerifyCurve
from app.wording.explanation import Pause, explanation_record, explanation_text, length_reason, pauses
from drafters.base import Draft
from drafters.hybrid import checked_source

MODEL = "model:small"
SUFFIX = SourceAccount("suffix", (10, 8, 4), (8, 4, 4), 0.81, 0.32)
DRAFT_MODEL = SourceAccount(MODEL, (100,), (41,), 0.41, 0.58)
KNOWN = Explanation(
    longest=31,
    widths=(WidthCost(1, 0.05, 1.0), WidthCost(4, 0.075, 1.5)),
    plain_rate=20.0,
    rate=31.0,
    sources=(SUFFIX,),
    model="",
    model_step_ratio=None,
    next_try=None,
)


def lines(explanation: Explanation) -> list[str]:
    return explanation_text(explanation).splitlines()


def state_of(name: str, explanation: Explanation) -> str:
    (line,) = (line for line in lines(explanation) if line.strip().startswith(f"{name}:"))
    return line.strip().removeprefix(f"{name}: ")


def test_where_nobody_guesses_there_is_one_line() -> None:
    assert explanation_text(None) == "No drafter: plain decoding."


def test_what_passes_cost_and_what_it_comes_to() -> None:
    assert lines(KNOWN)[:3] == [
        "  plain       20.0 tokens/s, 50.0 ms per token; 31.0 lately (1.55 of plain)",
        "  pass cost   of one over w tokens, over that of one token: 1: 1.00  4: 1.50",
        "  longest     31 tokens per draft",
    ]


def test_what_a_wide_pass_costs_after_it_is_told_where_that_is_anything() -> None:
    dear = replace(KNOWN, aftermath=1.25)
    line = "  after it    passes of one token take 1.25 of one longer, which is counted as the draft's"
    assert lines(dear) == [*lines(KNOWN)[:2], line, *lines(KNOWN)[2:]]
    assert explanation_record(dear)["aftermath_seconds"] == 1.25 * 0.05


def test_a_source_that_pays_is_shown_with_its_record_by_place() -> None:
    assert lines(KNOWN)[3:] == [
        "  suffix: 8 of 10 right, 81% expected, 32% needed",
        "    right by place, all before it right: 1: 80%  2: 50%  3: 100%; 10 drafts looked at",
    ]


def test_a_source_that_is_too_seldom_right_on_average_says_so() -> None:
    rare = replace(KNOWN, sources=(replace(SUFFIX, chance=0.2),))
    assert state_of("suffix", rare) == (
        "8 of 10 right, 20% expected, 32% needed on average: only its surest drafts are verified"
    )


def test_a_source_that_can_not_pay_is_off() -> None:
    never = replace(KNOWN, sources=(replace(SUFFIX, needed=None),))
    assert state_of("suffix", never) == "off: at this cost no draft of it pays off, however often it is right"


def test_a_paused_draft_model_says_what_it_needs_and_when_it_is_tried_again() -> None:
    paused = replace(KNOWN, sources=(SUFFIX, DRAFT_MODEL), model=MODEL, model_step_ratio=0.3, next_try=12)
    assert state_of(MODEL, paused) == "paused: 41 of 100 right, 41% expected, 58% needed; next try in 12 rounds"
    assert state_of("suffix", paused) == "8 of 10 right, 81% expected, 32% needed", "only the draft model pauses"


def test_a_draft_model_that_works_is_not_paused() -> None:
    works = replace(KNOWN, sources=(replace(DRAFT_MODEL, chance=0.8),), model=MODEL, model_step_ratio=0.3)
    assert state_of(MODEL, works) == "41 of 100 right, 80% expected, 58% needed"


@pytest.mark.parametrize(
    ("next_try", "words"),
    [
        (7, "not asked yet: its step costs 0.30 of the target's; next try in 7 rounds"),
        (1, "not asked yet: its step costs 0.30 of the target's; next try in 1 round"),
        (0, "not asked yet: its step costs 0.30 of the target's; next try is due"),
        (
            None,
            "not asked: its step costs 0.30 of the target's, so no draft of it pays off, however often it is right",
        ),
    ],
)
def test_a_draft_model_that_was_never_asked_is_told_of_too(next_try: int | None, words: str) -> None:
    assert state_of(MODEL, replace(KNOWN, model=MODEL, model_step_ratio=0.3, next_try=next_try)) == words


@pytest.mark.parametrize(
    ("model", "longest", "line"),
    [
        ("", 3, "every draft is verified, paying off or not, and nothing is learnt from it"),
        (
            MODEL,
            3,
            "every draft is verified, paying off or not, and nothing is learnt from it; "
            "model:small is asked wherever nothing else drafts",
        ),
        (MODEL, 0, "no tokens per draft, so no drafter is asked"),
    ],
)
def test_where_nothing_is_decided_nothing_is_said_of_tries_and_pauses(model: str, longest: int, line: str) -> None:
    fixed = replace(KNOWN, sources=(), model=model, model_step_ratio=0.3, longest=longest, adapts=False)
    assert lines(fixed)[3:] == [f"  --no-adapt: {line}"]


def test_a_draft_model_that_was_never_tuned_is_told() -> None:
    untuned = replace(KNOWN, model=MODEL, sources=(DRAFT_MODEL,), model_step_ratio=0.3, model_tuned=False)
    assert lines(untuned)[-1].startswith("  model:small may run faster: localspec tune MODEL --draft DRAFT --keep")
    assert lines(replace(untuned, model_tuned=True)) == lines(untuned)[:-1]
    assert explanation_record(untuned)["model_tuned"] is False
    assert explanation_record(KNOWN)["model_tuned"] is None


def test_the_record_has_the_same_numbers_and_is_json() -> None:
    explanation = replace(KNOWN, sources=(SUFFIX, DRAFT_MODEL), model=MODEL, model_step_ratio=0.3, next_try=12)
    assert json.loads(json.dumps(explanation_record(explanation))) == {
        "plain_tokens_per_second": 20.0,
        "tokens_per_second": 31.0,
        "longest_draft": 31,
        "adapts": True,
        "failure": None,
        "aftermath_seconds": 0.0,
        "pass_seconds": {"1": 0.05, "4": 0.075},
        "model_step_ratio": 0.3,
        "model_tuned": True,
        "next_try_in_rounds": 12,
        "sources": [
            {"name": "suffix", "guessed_at": [10, 8, 4], "right_at": [8, 4, 4], "chance": 0.81, "needed": 0.32},
            {"name": MODEL, "guessed_at": [100], "right_at": [41], "chance": 0.41, "needed": 0.58},
        ],
    }


# --- from a controller ------------------------------------------------------------------------------------------------


def new(curve: dict[int, float], step: float | None = None, longest: int = 31) -> AdaptiveController:
    model = None if step is None else ModelCost(MODEL, VerifyCurve({1: step, 16: 4 * step}))
    adaptive = controller(VerifyCurve(curve), longest, model)
    adaptive.begin()
    return adaptive


EVEN = {1: 0.05, 2: 0.06, 16: 0.2, 32: 0.36}


def test_a_controller_that_knows_nothing_yet_explains_its_costs() -> None:
    explanation = explain(new(EVEN))
    assert [cost.width for cost in explanation.widths] == [1, 2, 16, 32]
    assert [round(cost.ratio, 2) for cost in explanation.widths] == [1, 1.2, 4, 7.2]
    assert explanation.plain_rate == explanation.rate == pytest.approx(20)
    assert (explanation.sources, explanation.model, explanation.model_step_ratio) == ((), "", None)
    assert explanation_text(explanation).count("\n") == 2


def test_widths_beyond_the_longest_draft_are_left_out() -> None:
    assert [cost.width for cost in explain(new(EVEN, longest=15)).widths] == [1, 2, 16]


def test_what_wide_passes_cost_after_them_is_what_was_seen() -> None:
    adaptive = new(EVEN)
    for _ in range(3):
        for width, seconds in ((2, 0.06), (1, 0.10), (1, 0.05), (1, 0.05)):
            adaptive.state.curve.observe(width, seconds)
    assert explain(adaptive).aftermath == pytest.approx(1.0)


def test_a_draft_model_needs_more_than_guesses_that_cost_nothing() -> None:
    adaptive = new(EVEN, step=0.01)
    for source in ("suffix", MODEL):
        for right in (True, True, False):
            adaptive.acceptance.observe(Draft((1,), confidence=(0.6,), source=source), [1 if right else 2])
    suffix, model = explain(adaptive).sources
    assert (suffix.name, suffix.guessed_at, suffix.right_at) == ("suffix", (3,), (2,))
    assert suffix.needed is not None
    assert model.needed is not None
    assert model.needed > suffix.needed > 0
    assert suffix.chance == adaptive.acceptance.at("suffix", 0)


def test_what_is_only_hoped_for_is_not_told_as_counted() -> None:
    adaptive = new(EVEN)
    adaptive.acceptance.observe(Draft((1,), confidence=(0.6,), source="suffix"), [2])
    assert state_of("suffix", explain(adaptive)).startswith("0 of 1 right, 64% expected, ")


def test_a_copy_that_a_draft_model_read_needs_as_much_as_its_own_guesses() -> None:
    adaptive = new(EVEN, step=0.01)
    for source in (checked_source(MODEL, "suffix"), MODEL):
        adaptive.acceptance.observe(Draft((1,), confidence=(0.6,), source=source), [1])
    read, model = explain(adaptive).sources
    assert read.needed == model.needed


def test_where_every_token_costs_a_whole_pass_the_draft_model_is_off_for_good() -> None:
    adaptive = new({1: 0.05, 32: 1.6}, step=0.01)
    adaptive.acceptance.observe(Draft((1,), confidence=(0.6,), source=MODEL), [1])
    explanation = explain(adaptive)
    assert (explanation.sources[0].needed, explanation.next_try) == (None, None)
    assert state_of(MODEL, explanation).startswith("off:")
    assert explanation.model_step_ratio == pytest.approx(0.2)


def test_a_controller_that_is_not_asked_tells_of_no_next_try() -> None:
    adaptive = new(EVEN, step=0.01)
    assert explain(adaptive).adapts
    assert explain(adaptive).next_try is not None
    assert (explain(adaptive, adapts=False).adapts, explain(adaptive, adapts=False).next_try) == (False, None)


def test_who_rests_is_told_with_the_words_of_its_state() -> None:
    never = replace(SUFFIX, needed=None)
    paused = replace(KNOWN, sources=(SUFFIX, never, DRAFT_MODEL), model=MODEL, model_step_ratio=0.3, next_try=12)
    assert pauses(paused) == [Pause("suffix", state_of_all(paused)[1]), Pause(MODEL, state_of_all(paused)[2])]
    assert pauses(replace(paused, adapts=False)) == [], "where nothing is decided nobody rests"
    assert pauses(replace(paused, sources=(SUFFIX, DRAFT_MODEL), next_try=None)) == []


def state_of_all(explanation: Explanation) -> list[str]:
    names = {account.name for account in explanation.sources}
    parted = (line.strip().partition(": ") for line in lines(explanation))
    return [state for name, _, state in parted if name in names]


@pytest.mark.parametrize("adapts", [True, False])
def test_a_draft_model_that_failed_is_told_of_whatever_is_decided(adapts: bool) -> None:
    explanation = replace(KNOWN, model=MODEL, model_step_ratio=0.3, adapts=adapts, failure=f"{MODEL} failed: No room.")
    told = f"{MODEL} failed: No room. It is left out of this answer; the next one tries it again."
    assert pauses(explanation) == [Pause(MODEL, told)]
    assert f"  {told}" in lines(explanation)
    assert explanation_record(explanation)["failure"] == f"{MODEL} failed: No room."


@pytest.mark.parametrize("next_try", [7, None])
def test_a_draft_model_that_was_never_asked_rests(next_try: int | None) -> None:
    explanation = replace(KNOWN, model=MODEL, model_step_ratio=0.3, next_try=next_try)
    assert pauses(explanation) == [Pause(MODEL, state_of(MODEL, explanation))]


@pytest.mark.parametrize(
    ("adapts", "longest", "size", "reason"),
    [
        (True, 31, 0, "no draft that pays off"),
        (True, 31, 4, "as many as were drafted and pay off, at most 31"),
        (True, 31, 31, "the most allowed, 31"),
        (False, 3, 3, "fixed at 3"),
        (False, 3, 5, "fixed at 3"),
        (False, 3, 0, "as many as were drafted, at most 3"),
        (False, 0, 0, "fixed at 0"),
    ],
)
def test_why_a_draft_is_as_long_as_it_is(adapts: bool, longest: int, size: int, reason: str) -> None:
    assert length_reason(replace(KNOWN, adapts=adapts, longest=longest), size) == reason
    assert length_reason(None, size) == "no drafter"
