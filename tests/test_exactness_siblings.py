"""The first promise with second guesses: a draft that branches gives the text of plain decoding, and saves passes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product

import pytest
import test_exactness as chains
from adapting import controller
from checking import FIXED
from fakes import (
    END,
    INTACT,
    Answer,
    Case,
    FakeClock,
    MakeDrafter,
    PaddedToy,
    StoppingModel,
    difference,
    new_target,
    plain,
    run,
    run_in,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from two_proposals import BRANCHES, TwoProposals, came_true, toy_draft, two_proposals, with_second_proposals

from app.engine.control.adaptive_controller import AdaptiveController
from app.engine.control.draft_model_cost import ModelCost
from app.engine.conversation.session import Session
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.ending import Finish
from drafters.base import Draft, Drafter
from drafters.draft_model import DraftModel
from drafters.hybrid import Eager, Hybrid
from drafters.suffix import SuffixDrafter
from models.base import LanguageModel
from models.errors import Cancelled
from models.sampling.sampler import SamplingParams
from models.toy import ToyVocab

SIZES = ((1, 1), (2, BRANCHES), (4, 2), (8, 4))
"""Length of a draft, and beside how many of its first tokens a second guess is checked."""
PROMPTS = ((0, "the cat sat on the mat. the cat"), (344, "a"))
LONG_SIZES = tuple(product((2, 3, 5, 8), (1, 2, 4, BRANCHES)))
BUDGET = 48
LONG = Case(tuple(ToyVocab().tokenize("the cat sat on the mat. the cat")), budget=400)
TOKENS_COMPARED = 100_000
"""On `ToyModel`, by the grid of chains and those here."""


def hybrid(case: Case, target: LanguageModel, answer: Answer) -> Drafter:
    model = toy_draft(0.3)(case, target, answer)
    assert isinstance(model, DraftModel)
    return Hybrid([SuffixDrafter(target.vocab.is_end)], model, Eager())


def padded(case: Case, target: LanguageModel, _: Answer) -> Drafter:
    model = PaddedToy(case.toy_seed, 5, 50.0, unlikeness=0.3, context_size=case.context_size)
    return DraftModel(model, target.vocab)


DRAFTERS: dict[str, MakeDrafter] = {
    "two guesses": two_proposals,
    "same model": toy_draft(0.0),
    "near model": toy_draft(0.3),
    "unlike model": toy_draft(1.0),
    "stranger": toy_draft(3.0),
    "padded draft": padded,
    "suffix and near model": hybrid,
}
PENALTIES = {"free": (1.0, 0.0, 0.0), "penalised": (1.3, 0.4, 0.2)}
SAMPLINGS = {
    f"t={temperature} {penalties}": SamplingParams(temperature, 20, 0.98, 0.0, *numbers, penalty_window=-1, seed=11)
    for temperature in (0.0, 0.7, 1.0)
    for penalties, numbers in PENALTIES.items()
}

plain_of = lru_cache(maxsize=None)(plain)


def answer_of(case: Case, name: str, length: int, seconds: int) -> Answer:
    """Return a drafted answer, which is that of plain decoding."""
    target = new_target(case)
    got = run(case, DRAFTERS[name](case, target, plain_of(case)), length, with_second_proposals(seconds), target)
    why = difference(plain_of(case), got)
    assert not why, f"{name}, draft length {length}, {seconds} second guesses, {case}: {why}"
    return got


def cases_of(sampling: SamplingParams) -> list[Case]:
    """Return cases that end by their budget or an end token, and such that end by a stop string."""
    cases = [Case(tuple(ToyVocab().tokenize(text)), sampling, toy_seed, budget=BUDGET) for toy_seed, text in PROMPTS]
    ends = [len(plain_of(case).text) * 3 // 4 for case in cases]
    return cases + [
        replace(case, stops=(plain_of(case).text[end - 2 : end],)) for case, end in zip(cases, ends, strict=True)
    ]


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_second_guesses_leave_the_text_as_it_is_and_come_true(name: str, sampling: SamplingParams) -> None:
    answers = [answer_of(case, name, *sizes) for case, sizes in product(cases_of(sampling), SIZES)]
    # A drafter whose first choice is always right needs no siblings.
    assert (came_true(answers) > 0) == (name != "same model")


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_second_guesses_leave_a_long_text_as_it_is(sampling: SamplingParams) -> None:
    answers = [answer_of(replace(LONG, sampling=sampling), "two guesses", *sizes) for sizes in LONG_SIZES]
    assert came_true(answers) > 100


def test_a_round_is_as_wide_as_its_pass_with_the_token_that_is_read_again_after_a_sibling() -> None:
    target = StoppingModel()
    answer = run(LONG, two_proposals(LONG, target, plain_of(LONG)), 5, with_second_proposals(4), target)
    assert came_true([answer]) > 0
    assert [round_.width for round_ in answer.rounds] == [tokens for tokens, rows in target.passes if rows > 0]


@pytest.mark.parametrize("name", ["near model", "unlike model", "stranger"])
def test_second_guesses_save_passes(name: str) -> None:
    cases = [case for temperature in (0.7, 1.0) for case in cases_of(SAMPLINGS[f"t={temperature} free"])]
    bare, branching = (sum(len(answer_of(case, name, 3, count).rounds) for case in cases) for count in (0, 3))
    assert branching < 0.97 * bare


def test_the_answers_compared_here_end_in_every_way() -> None:
    finishes = {plain_of(case).finish for sampling in SAMPLINGS.values() for case in cases_of(sampling)}
    assert finishes == {Finish.END, Finish.LENGTH, Finish.STOP}


def test_enough_tokens_are_compared() -> None:
    in_chains = sum(
        len(chains.plain_of(case).tokens)
        for name, sampling in product(chains.DRAFTERS, chains.SAMPLINGS.values())
        for case, _ in chains.grid(name, sampling)
    )
    short = sum(len(plain_of(case).tokens) for sampling in SAMPLINGS.values() for case in cases_of(sampling))
    long = sum(len(plain_of(replace(LONG, sampling=sampling)).tokens) for sampling in SAMPLINGS.values())
    branching = len(DRAFTERS) * len(SIZES) * short + len(LONG_SIZES) * long
    print(f"{in_chains} tokens compared on chains, {branching} on drafts with second guesses")
    assert in_chains + branching >= TOKENS_COMPARED


@given(chains.cases(), st.sampled_from(sorted(DRAFTERS)), st.integers(0, 12), st.integers(0, BRANCHES))
@settings(FIXED, max_examples=120)
def test_prompts_stop_strings_budgets_and_small_contexts_do_not_change_the_text(
    case: Case, name: str, length: int, seconds: int
) -> None:
    answer_of(case, name, length, seconds)


class AnyTwo(TwoProposals):
    """Proposes whatever first and second guesses it is given, in turn."""

    def __init__(self, drafts: Sequence[Sequence[tuple[int, int]]]) -> None:
        super().__init__(())
        self._drafts = list(drafts)

    def propose(self, context: Sequence[int], limit: int) -> Draft:  # noqa: ARG002
        pairs = self._drafts.pop()[:limit] if self._drafts else ()
        return Draft(tuple(first for first, _ in pairs), runners_up=tuple(second for _, second in pairs))


tokens_of_any_kind = st.integers(0, END)
drafts_of_chance = st.lists(st.lists(st.tuples(tokens_of_any_kind, tokens_of_any_kind), max_size=8), max_size=30)


@given(chains.cases(), drafts_of_chance, st.integers(1, 8), st.integers(0, BRANCHES))
@settings(FIXED, max_examples=100)
def test_no_second_guess_can_change_the_text(
    case: Case, drafts: list[list[tuple[int, int]]], length: int, seconds: int
) -> None:
    assert not difference(plain_of(case), run(case, AnyTwo(drafts), length, with_second_proposals(seconds)))


@given(
    chains.cases(),
    st.sampled_from(["near model", "unlike model", "stranger", "suffix and near model"]),
    st.integers(0, 16),
    st.lists(st.floats(0.5, 4), min_size=32, max_size=32),
)
@settings(FIXED, max_examples=80)
def test_whatever_passes_cost_adaptive_second_guesses_leave_the_text_as_it_is(
    case: Case, name: str, longest: int, ratios: list[float]
) -> None:
    target = new_target(case)
    drafter = DRAFTERS[name](case, target, plain_of(case))
    adaptive = cheap_rows(drafter, longest, dict(enumerate(ratios, start=2)))
    got = run(case, drafter, longest, replace(INTACT, controller=lambda _, __: adaptive), target)
    assert not difference(plain_of(case), got)


def cheap_rows(drafter: Drafter, longest: int, ratios: dict[int, float]) -> AdaptiveController:
    """Return a controller that may use second guesses, on a target whose passes cost so much by their width."""
    model = drafter._model if isinstance(drafter, Hybrid) else drafter  # type: ignore[attr-defined]
    adaptive = controller(
        VerifyCurve({1: 3.0, **ratios}), longest, ModelCost(model.name, VerifyCurve({1: 0.01, 16: 0.1}))
    )
    adaptive.use(replace(adaptive.settings, max_siblings=BRANCHES))
    if isinstance(drafter, Hybrid):
        drafter.use(adaptive)
    return adaptive


def test_an_adaptive_controller_does_use_second_guesses_where_rows_are_cheap() -> None:
    case = Case(tuple(ToyVocab().tokenize("the cat")), SamplingParams(1.0, top_k=20, seed=2), budget=120)
    target = new_target(case)
    drafter = hybrid(case, target, plain_of(case))
    adaptive = cheap_rows(drafter, 12, {32: 3.1})
    got = run(case, drafter, 12, replace(INTACT, controller=lambda _, __: adaptive), target)
    assert not difference(plain_of(case), got)
    assert came_true([got]) > 0


stops_at = st.one_of(st.just(0), st.integers(1, 14))
turns = st.lists(
    st.tuples(
        st.sampled_from(["continue", "again", "back"]), st.lists(tokens_of_any_kind, min_size=1, max_size=8), stops_at
    ),
    min_size=2,
    max_size=5,
)


@given(turns, st.integers(1, 6), st.integers(1, BRANCHES), st.sampled_from([0.3, 1.0, 3.0]))
@settings(FIXED, max_examples=50)
def test_answers_late_in_a_conversation_equal_those_of_a_new_session(
    conversation: list[tuple[str, list[int], int]], length: int, seconds: int, unlikeness: float
) -> None:
    """Also after an answer was stopped inside a pass, or ended with a second guess that is not in the cache."""
    target = StoppingModel()
    session = Session(target, DraftModel(StoppingModel(unlikeness=unlikeness), target.vocab), FakeClock())
    prompt: tuple[int, ...] = ()
    for kind, added, stop_at in conversation:
        kept = {"continue": tuple(session.tokens), "again": prompt, "back": prompt[: len(prompt) // 2]}[kind]
        prompt = kept if kept and kind == "again" else (*kept, *added)
        case = Case(prompt, SamplingParams(1.0, top_k=20, seed=len(prompt)), budget=16)
        target.stop_at = stop_at and len(target.passes) + stop_at
        try:
            got = run_in(session, case, length, with_second_proposals(seconds))
        except Cancelled:
            said = session.tokens[len(prompt) :]
            assert tuple(said) == plain_of(case).tokens[: len(said)]
        else:
            assert not difference(plain_of(case), got)
