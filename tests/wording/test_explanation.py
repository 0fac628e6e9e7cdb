"""Text and JSON of /spec and --explain: one example of each state of a source, and figures of a real controller."""

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
    return explanation_text(explanation, 400).splitlines()


def state_of(name: str, explanation: Explanation) -> str:
    (line,) = (line for line in lines(explanation) if line.strip().startswith(f"{name}:"))
    return line.strip().removeprefix(f"{name}: ")


def test_without_a_drafter_there_is_one_line() -> None:
    assert explanation_text(None) == "No drafter: plain decoding."


def test_the_first_lines_have_the_speeds_the_costs_and_the_limit() -> None:
    assert lines(KNOWN)[:4] == [
        "  plain decoding  20.0 tokens/s (50.0 ms per token)",
        "  recent speed    31.0 tokens/s (1.55 times plain decoding)",
        "  pass cost       in one-token passes, by tokens in the pass: 1: 1.00  4: 1.50",
        "  draft limit     31 tokens",
    ]


def test_a_draft_model_that_waits_is_named_with_the_one_that_is_faster() -> None:
    waits = replace(KNOWN, model=MODEL, sources=(SUFFIX, DRAFT_MODEL), model_step_ratio=0.2, waiting=("text:tiny",))
    assert lines(waits)[-1] == "  text:tiny: not used now, model:small is expected to be faster"
    assert pauses(waits)[-1] == Pause("text:tiny", "not used now, model:small is expected to be faster")
    assert explanation_record(waits)["waiting_models"] == ["text:tiny"]
    assert explanation_record(KNOWN)["waiting_models"] == []


def test_the_cost_after_a_wide_pass_is_shown_where_there_is_one() -> None:
    dear = replace(KNOWN, aftermath=1.25)
    line = "  after a draft   one-token passes lose 1.25 one-token passes in total, counted as cost of the draft"
    assert lines(dear) == [*lines(KNOWN)[:3], line, *lines(KNOWN)[3:]]
    assert explanation_record(dear)["aftermath_seconds"] == 1.25 * 0.05


def test_costs_measured_on_a_busy_machine_are_marked() -> None:
    doubtful = replace(KNOWN, disturbed=True)
    assert lines(doubtful)[:-1] == lines(KNOWN)
    assert lines(doubtful)[-1].strip().startswith("The pass costs were measured while other programs held the cores")
    assert explanation_record(doubtful)["disturbed"] is True


def test_a_source_that_pays_is_shown_with_its_record_by_place() -> None:
    assert lines(KNOWN)[4:] == [
        "  suffix: 8 of 10 first tokens matched, acceptance probability 81%, break-even 32%",
        "    matched by position, if all earlier tokens matched: 1: 80%  2: 50%  3: 100% (10 drafts)",
    ]


def test_a_source_below_break_even_says_so() -> None:
    rare = replace(KNOWN, sources=(replace(SUFFIX, chance=0.2),))
    assert state_of("suffix", rare) == (
        "8 of 10 first tokens matched, acceptance probability 20%, break-even 32%; "
        "only drafts above break-even are verified"
    )


def test_a_source_that_can_not_pay_is_off() -> None:
    never = replace(KNOWN, sources=(replace(SUFFIX, needed=None),))
    assert state_of("suffix", never) == "off: at its cost no draft pays off, even if every token is accepted"


def test_a_paused_draft_model_says_what_it_needs_and_when_it_is_tried_again() -> None:
    paused = replace(KNOWN, sources=(SUFFIX, DRAFT_MODEL), model=MODEL, model_step_ratio=0.3, next_try=12)
    figures = "41 of 100 first tokens matched, acceptance probability 41%, break-even 58%"
    assert state_of(MODEL, paused) == f"paused: {figures}; next try in 12 rounds"
    assert not state_of("suffix", paused).startswith("paused"), "only the draft model pauses"


def test_a_draft_model_that_works_is_not_paused() -> None:
    works = replace(KNOWN, sources=(replace(DRAFT_MODEL, chance=0.8),), model=MODEL, model_step_ratio=0.3)
    assert state_of(MODEL, works) == "41 of 100 first tokens matched, acceptance probability 80%, break-even 58%"


@pytest.mark.parametrize(
    ("next_try", "words"),
    [
        (7, "no draft yet: one step costs 0.30 of a target pass; next try in 7 rounds"),
        (1, "no draft yet: one step costs 0.30 of a target pass; next try in 1 round"),
        (0, "no draft yet: one step costs 0.30 of a target pass; next try is due"),
        (
            None,
            "no drafts: one step costs 0.30 of a target pass, so no draft pays off, even if every token is accepted",
        ),
    ],
)
def test_a_draft_model_that_drafted_nothing_yet_has_a_line_too(next_try: int | None, words: str) -> None:
    assert state_of(MODEL, replace(KNOWN, model=MODEL, model_step_ratio=0.3, next_try=next_try)) == words


@pytest.mark.parametrize(
    ("model", "longest", "line"),
    [
        ("", 3, "every draft is verified, whether it pays off or not."),
        (
            MODEL,
            3,
            "every draft is verified, whether it pays off or not. model:small drafts wherever no other drafter does.",
        ),
        (MODEL, 0, "the draft limit is 0, so nothing is drafted"),
    ],
)
def test_without_adapting_there_are_no_tries_and_pauses(model: str, longest: int, line: str) -> None:
    fixed = replace(KNOWN, sources=(), model=model, model_step_ratio=0.3, longest=longest, adapts=False)
    assert lines(fixed)[4:] == [f"  --no-adapt: {line}"]


def test_a_draft_model_that_was_never_tuned_is_told() -> None:
    untuned = replace(KNOWN, model=MODEL, sources=(DRAFT_MODEL,), model_step_ratio=0.3, model_tuned=False)
    advice = "  model:small may run faster with other settings. To find them: localspec tune MODEL --draft DRAFT --keep"
    assert lines(untuned)[-1] == advice
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
        "disturbed": False,
        "aftermath_seconds": 0.0,
        "pass_seconds": {"1": 0.05, "4": 0.075},
        "waiting_models": [],
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
    assert explanation_text(explanation).count("\n") == 3


def test_widths_beyond_the_longest_draft_are_left_out() -> None:
    assert [cost.width for cost in explain(new(EVEN, longest=15)).widths] == [1, 2, 16]


def test_what_wide_passes_cost_after_them_is_what_was_seen() -> None:
    adaptive = new(EVEN)
    for _ in range(3):
        for width, seconds in ((2, 0.06), (1, 0.10), (1, 0.05), (1, 0.05)):
            adaptive.state.curve.observe(width, seconds)
    assert explain(adaptive).aftermath == pytest.approx(1.0)


def test_a_draft_model_breaks_even_later_than_a_free_drafter() -> None:
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


def test_the_estimate_stands_beside_the_count() -> None:
    adaptive = new(EVEN)
    adaptive.acceptance.observe(Draft((1,), confidence=(0.6,), source="suffix"), [2])
    assert state_of("suffix", explain(adaptive)).startswith("0 of 1 first tokens matched, acceptance probability 64%, ")


def test_a_copy_that_a_draft_model_read_breaks_even_where_its_own_drafts_do() -> None:
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


def test_a_controller_that_does_not_adapt_has_no_next_try() -> None:
    adaptive = new(EVEN, step=0.01)
    assert explain(adaptive).adapts
    assert explain(adaptive).next_try is not None
    assert (explain(adaptive, adapts=False).adapts, explain(adaptive, adapts=False).next_try) == (False, None)


def test_a_paused_source_is_listed_with_the_text_of_its_state() -> None:
    never = replace(SUFFIX, needed=None)
    paused = replace(KNOWN, sources=(SUFFIX, never, DRAFT_MODEL), model=MODEL, model_step_ratio=0.3, next_try=12)
    assert pauses(paused) == [Pause("suffix", state_of_all(paused)[1]), Pause(MODEL, state_of_all(paused)[2])]
    assert pauses(replace(paused, adapts=False)) == [], "without adapting no source pauses"
    assert pauses(replace(paused, sources=(SUFFIX, DRAFT_MODEL), next_try=None)) == []


def state_of_all(explanation: Explanation) -> list[str]:
    names = {account.name for account in explanation.sources}
    parted = (line.strip().partition(": ") for line in lines(explanation))
    return [state for name, _, state in parted if name in names]


@pytest.mark.parametrize("adapts", [True, False])
def test_a_failed_draft_model_is_listed_with_and_without_adapting(adapts: bool) -> None:
    explanation = replace(KNOWN, model=MODEL, model_step_ratio=0.3, adapts=adapts, failures={MODEL: "No room."})
    note = f"{MODEL} failed: No room. This answer goes on without it. The next answer tries it again."
    assert pauses(explanation) == [Pause(MODEL, note)]
    assert f"  {note}" in lines(explanation)
    assert explanation_record(explanation)["failure"] == f"{MODEL} failed: No room."


def test_where_one_of_two_draft_models_failed_the_other_is_explained_too() -> None:
    other, never = "model:other", replace(DRAFT_MODEL, needed=None)
    found = replace(KNOWN, sources=(SUFFIX, never), model=other, model_step_ratio=0.3, failures={MODEL: "No room."})
    note = f"{MODEL} failed: No room. This answer goes on without it. The next answer tries it again."
    assert pauses(found) == [Pause(MODEL, note), Pause(other, state_of(other, found))]
    assert f"  {note}" in lines(found)
    fixed = replace(found, model=MODEL, waiting=(other,), adapts=False)
    assert not any("expected to be faster" in line for line in lines(fixed)), "the model that failed is no reason"
    both = replace(found, failures={MODEL: "No room.", other: "No memory."})
    assert [pause.name for pause in pauses(both)] == [MODEL, other]
    assert explanation_record(both)["failure"] == f"{MODEL} failed: No room. {other} failed: No memory."


@pytest.mark.parametrize("next_try", [7, None])
def test_a_draft_model_that_drafted_nothing_yet_is_listed(next_try: int | None) -> None:
    explanation = replace(KNOWN, model=MODEL, model_step_ratio=0.3, next_try=next_try)
    assert pauses(explanation) == [Pause(MODEL, state_of(MODEL, explanation))]


@pytest.mark.parametrize(
    ("adapts", "longest", "size", "reason"),
    [
        (True, 31, 0, "no draft pays off"),
        (True, 31, 4, "the proposed tokens that pay off, at most 31"),
        (True, 31, 31, "the limit, 31"),
        (False, 3, 3, "fixed at 3"),
        (False, 3, 5, "fixed at 3"),
        (False, 3, 0, "all proposed tokens, at most 3"),
        (False, 0, 0, "fixed at 0"),
    ],
)
def test_why_a_draft_is_as_long_as_it_is(adapts: bool, longest: int, size: int, reason: str) -> None:
    assert length_reason(replace(KNOWN, adapts=adapts, longest=longest), size) == reason
    assert length_reason(None, size) == "no drafter"
