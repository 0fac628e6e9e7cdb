"""The first promise: with the same seed, every drafter and every draft length give the text of plain decoding."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product

import pytest
from adapting import controller
from checking import FIXED
from fakes import (
    END,
    INTACT,
    AlwaysWrongDrafter,
    Answer,
    Case,
    FakeClock,
    MakeDrafter,
    OracleDrafter,
    PaddedToy,
    ScriptedDrafter,
    StoppingModel,
    Trims,
    Whimsical,
    difference,
    new_target,
    plain,
    run,
    run_in,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from other_tokens import WORDS, OtherToy, OtherVocab
from small_toy import SmallToy, map_without

from app.engine.control.draft_model_cost import ModelCost
from app.engine.conversation.session import Session
from app.engine.costs.pass_cost import VerifyCurve
from app.engine.decoding.ending import Finish
from drafters.alternatives import AlternativeModels
from drafters.base import Drafter, ModelDrafter, NullDrafter
from drafters.draft_model import DraftModel
from drafters.hybrid import Eager, Hybrid
from drafters.prompt_lookup import PromptLookup
from drafters.suffix import SuffixDrafter
from drafters.text.draft_model import TextDraftModel
from models.base import LanguageModel
from models.errors import Cancelled
from models.sampling.sampler import SamplingParams
from models.toy import ToyModel, ToyVocab

DRAFT_LENGTHS = (1, 3, 4, 8, 16)
PADDING = 5


def lookup(shortest: int) -> MakeDrafter:
    return lambda _case, target, _answer: PromptLookup(target.vocab.is_end, shortest)


def draft_model(unlikeness: float) -> MakeDrafter:
    def make(case: Case, target: LanguageModel, _: Answer) -> Drafter:
        model = ToyModel(case.toy_seed, unlikeness=unlikeness, context_size=case.context_size)
        return DraftModel(model, target.vocab)

    return make


def padded_draft_model(fill: float) -> MakeDrafter:
    def make(case: Case, target: LanguageModel, _: Answer) -> Drafter:
        model = PaddedToy(case.toy_seed, PADDING, fill, unlikeness=0.3, context_size=case.context_size)
        return DraftModel(model, target.vocab)

    return make


def trimmed_draft_model(unlikeness: float) -> MakeDrafter:
    def make(case: Case, target: LanguageModel, _: Answer) -> Drafter:
        token_map = map_without(target.vocab.tokenize("eao"), target.vocab.size)
        model = ToyModel(case.toy_seed, unlikeness=unlikeness, context_size=case.context_size)
        return DraftModel(SmallToy(model, token_map), target.vocab, token_map)

    return make


def rambling(case: Case, _: LanguageModel, __: Answer) -> Drafter:
    tokens = [(case.toy_seed + 7 * place) % (END + 1) for place in range(32)]
    return ScriptedDrafter(tokens[turn : turn + 16] for turn in range(16))


def hybrid(unlikeness: float | None) -> MakeDrafter:
    def make(case: Case, target: LanguageModel, answer: Answer) -> Drafter:
        model = None if unlikeness is None else draft_model(unlikeness)(case, target, answer)
        assert isinstance(model, DraftModel | None)
        return Hybrid([SuffixDrafter(target.vocab.is_end)], model, Eager())

    return make


DRAFTERS: dict[str, MakeDrafter] = {
    "lookup": lookup(3),
    "eager lookup": lookup(1),
    "suffix": hybrid(None),
    "suffix and near model": hybrid(0.3),
    "suffix and stranger": hybrid(3.0),
    "same model": draft_model(0.0),
    "near model": draft_model(0.3),
    "unlike model": draft_model(1.0),
    "stranger": draft_model(3.0),
    # Its padding rows would win every draft if they were looked at.
    "padded draft": padded_draft_model(50.0),
    "padded target": draft_model(0.3),
    "padded pair": padded_draft_model(-1e4),
    "fewer tokens": trimmed_draft_model(0.0),
    "fewer tokens, unlike": trimmed_draft_model(0.6),
    "oracle": lambda _case, _target, answer: OracleDrafter(answer.tokens),
    "always wrong": lambda _case, _target, answer: AlwaysWrongDrafter(answer.tokens),
    "rambling": rambling,
}
TARGET_PADDING = {"padded target": PADDING, "padded pair": PADDING}
SAMPLINGS = {
    f"t={temperature} {truncation} {penalties}": SamplingParams(
        temperature, top_k, top_p, min_p, repeat, frequency, presence, seed=7
    )
    for temperature in (0.0, 0.7, 1.0)
    for truncation, (top_k, top_p, min_p) in {
        "whole": (0, 1.0, 0.0), "top-k": (5, 1.0, 0.0), "top-p": (0, 0.9, 0.0), "min-p": (0, 1.0, 0.1)
    }.items()
    if temperature > 0 or truncation == "whole"
    for penalties, (repeat, frequency, presence) in {"free": (1.0, 0.0, 0.0), "penalised": (1.3, 0.4, 0.2)}.items()
}  # fmt: skip
# The second and third toy end their texts by themselves more often than not.
PROMPTS = ((0, "the cat sat on the mat. the cat"), (267, "een teen teen teen"), (78, "a"))

plain_of = lru_cache(maxsize=None)(plain)


def assert_exact(case: Case, drafter: Drafter, draft_length: int, target: LanguageModel | None = None) -> Answer:
    got = run(case, drafter, draft_length, target=target)
    assert not difference(plain_of(case), got), f"{drafter.name}, draft length {draft_length}: {case}"
    return got


def grid(name: str, sampling: SamplingParams) -> list[tuple[Case, int]]:
    cases = [
        Case(tuple(ToyVocab().tokenize(text)), sampling, toy_seed, budget=18, padding=TARGET_PADDING.get(name, 0))
        for toy_seed, text in PROMPTS
    ]
    return list(product(cases, DRAFT_LENGTHS))


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_every_drafter_gives_the_text_of_plain_decoding(name: str, sampling: SamplingParams) -> None:
    for case, draft_length in grid(name, sampling):
        target = new_target(case)
        assert_exact(case, DRAFTERS[name](case, target, plain_of(case)), draft_length, target)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("same model", 1, 1),
        ("oracle", 1, 1),
        ("near model", 0.9, 0.99),
        ("padded draft", 0.9, 0.99),
        ("padded target", 0.9, 0.99),
        ("padded pair", 0.9, 0.99),
        ("unlike model", 0.6, 0.85),
        ("stranger", 0.3, 0.5),
        ("lookup", 0.2, 0.5),
        ("eager lookup", 0.2, 0.5),
        ("suffix", 0.2, 0.5),
        ("suffix and near model", 0.6, 0.85),
        ("suffix and stranger", 0.2, 0.5),
        ("rambling", 0.02, 0.1),
        ("always wrong", 0, 0),
    ],
)
def test_the_drafters_compared_here_are_as_good_as_their_names_say(name: str, least: float, most: float) -> None:
    accepted = judged = 0
    for sampling in (SAMPLINGS["t=0.0 whole free"], SAMPLINGS["t=0.7 whole free"]):
        for case, draft_length in grid(name, sampling):
            target = new_target(case)
            answer = run(case, DRAFTERS[name](case, target, plain_of(case)), draft_length, target=target)
            # What the last round accepted may have been cut.
            for round_ in answer.rounds[:-1]:
                accepted += round_.accepted
                judged += min(round_.accepted + 1, len(round_.draft.tokens))
    assert judged > 50
    assert least <= accepted / judged <= most


def test_the_cases_compared_here_end_in_every_way() -> None:
    sampling = SAMPLINGS["t=0.7 whole free"]
    finishes = {plain_of(case).finish for case, _ in grid("lookup", sampling)}
    assert finishes == {Finish.END, Finish.LENGTH}


tokens_of_any_kind = st.integers(0, END)
prompts = st.one_of(
    st.lists(tokens_of_any_kind, min_size=1, max_size=30),
    st.lists(tokens_of_any_kind, min_size=1, max_size=5).map(lambda period: period * 8),
    st.lists(tokens_of_any_kind, min_size=65, max_size=70),
).map(tuple)
samplings = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.7, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 5, 40]),
    top_p=st.sampled_from([1.0, 0.9, 0.5]),
    min_p=st.sampled_from([0.0, 0.1]),
    repeat_penalty=st.sampled_from([1.0, 1.0, 1.5, 0.8]),
    frequency_penalty=st.sampled_from([0.0, 0.4, -0.4]),
    presence_penalty=st.sampled_from([0.0, 0.3]),
    penalty_window=st.sampled_from([64, -1, 0, 1, 5]),
    seed=st.integers(0, 2**64 - 1),
)
drafts_of_chance = st.lists(st.lists(tokens_of_any_kind, max_size=16), max_size=30)
draft_lengths = st.integers(0, 20)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return a case that ends by its budget, by the end of its context, by an end token or by a stop string."""
    case = Case(draw(prompts), draw(samplings), toy_seed=draw(st.sampled_from([0, 22, 78, 178, 267, 344])))
    text = plain_of(case).text
    starts = draw(st.lists(st.integers(0, max(0, len(text) - 1)), max_size=2))
    stops = tuple(text[start : start + draw(st.integers(1, 3))] for start in starts)
    return replace(
        case,
        stops=stops + draw(st.sampled_from([(), ("zz",), ("é", "")])),
        budget=draw(st.one_of(st.none(), st.integers(1, 24))),
        context_size=len(case.prompt) + draw(st.integers(0, 30)),
    )


@given(cases(), drafts_of_chance, draft_lengths)
@settings(FIXED, max_examples=150)
def test_no_draft_can_change_the_text(case: Case, drafts: list[list[int]], draft_length: int) -> None:
    assert_exact(case, ScriptedDrafter(drafts), draft_length)


@given(cases(), st.sets(st.integers(0, 40)), draft_lengths)
@settings(FIXED, max_examples=150)
def test_drafts_that_are_wrong_here_and_there_do_not_change_the_text(
    case: Case, wrong: set[int], draft_length: int
) -> None:
    # Past its end the plain answer goes on: a draft may not know where the answer stops.
    longer = plain_of(replace(case, stops=(), budget=40, context_size=512)).tokens
    proposals = [(token + 1) % END if place in wrong else token for place, token in enumerate(longer)]
    assert_exact(case, OracleDrafter(proposals), draft_length)


@given(cases(), st.sampled_from(sorted(DRAFTERS)), draft_lengths)
@settings(FIXED, max_examples=150)
def test_prompts_stop_strings_budgets_and_small_contexts_do_not_change_the_text(
    case: Case, name: str, draft_length: int
) -> None:
    case = replace(case, padding=TARGET_PADDING.get(name, 0))
    target = new_target(case)
    assert_exact(case, DRAFTERS[name](case, target, plain_of(case)), draft_length, target)


def several(case: Case, target: LanguageModel, names: Sequence[str], model: str, seed: int) -> Hybrid:
    """Return a hybrid of free drafters and a draft model, whose appraiser answers by chance."""
    answer = plain_of(case)
    free = [DRAFTERS[name](case, target, answer) for name in names]
    drafter = DRAFTERS[model](case, target, answer) if model else None
    assert isinstance(drafter, DraftModel | None)
    return Hybrid(free, drafter, Whimsical(seed))


def taking_turns(case: Case, target: LanguageModel, names: Sequence[str], models: Sequence[str], seed: int) -> Hybrid:
    """Return a hybrid of free drafters and draft models that draft in turns by chance, one that drafts text among them.

    Their names differ, as those of a real pair do.
    """
    answer = plain_of(case)
    drafters: list[ModelDrafter] = [text_draft_model(case, target)]
    for number, name in enumerate(models):
        drafter = DRAFTERS[name](case, target, answer)
        assert isinstance(drafter, DraftModel)
        drafter.name = f"model:{number}"
        drafters.append(drafter)
    free = [DRAFTERS[name](case, target, answer) for name in names]
    return Hybrid(free, AlternativeModels(drafters), Whimsical(seed))


def text_draft_model(case: Case, target: LanguageModel) -> TextDraftModel:
    return TextDraftModel(OtherToy(OtherVocab(WORDS), case.toy_seed, case.context_size), target.vocab)


several_models = st.lists(st.sampled_from(["same model", "near model", "stranger"]), min_size=1, max_size=2)
free_drafters = st.lists(st.sampled_from(["lookup", "eager lookup", "rambling", "oracle", "always wrong"]), max_size=2)
draft_models = st.sampled_from(["", "same model", "near model", "stranger", "padded draft", "padded pair"])


@given(cases(), free_drafters, draft_models, draft_lengths, st.integers(0, 1 << 30))
@settings(FIXED, max_examples=300)
def test_whatever_an_appraiser_and_a_controller_say_the_text_is_that_of_plain_decoding(
    case: Case, free: list[str], model: str, draft_length: int, seed: int
) -> None:
    case = replace(case, padding=TARGET_PADDING.get(model, 0))
    target = new_target(case)
    parts = replace(INTACT, controller=lambda _, length: Trims(length, seed))
    got = run(case, several(case, target, free, model, seed), draft_length, parts, target)
    assert not difference(plain_of(case), got)


@given(cases(), free_drafters, several_models, draft_lengths, st.integers(0, 1 << 30))
@settings(FIXED, max_examples=200)
def test_whichever_draft_model_drafts_in_a_round_the_text_is_that_of_plain_decoding(
    case: Case, free: list[str], models: list[str], draft_length: int, seed: int
) -> None:
    target = new_target(case)
    parts = replace(INTACT, controller=lambda _, length: Trims(length, seed))
    got = run(case, taking_turns(case, target, free, models, seed), draft_length, parts, target)
    assert not difference(plain_of(case), got)


@given(cases(), free_drafters, draft_models, st.integers(0, 31), st.lists(st.floats(0.5, 40), min_size=32, max_size=32))
@settings(FIXED, max_examples=200)
def test_whatever_passes_cost_adaptive_drafting_gives_the_text_of_plain_decoding(
    case: Case, free: list[str], model: str, longest: int, ratios: list[float]
) -> None:
    case = replace(case, padding=TARGET_PADDING.get(model, 0))
    target = new_target(case)
    drafter = several(case, target, free, model, 0)
    curve = VerifyCurve({1: 3.0, **dict(enumerate(ratios, start=2))})
    measured_cost = (
        ModelCost(DRAFTERS[model](case, target, plain_of(case)).name, VerifyCurve({1: 0.5, 16: 2})) if model else None
    )
    adaptive = controller(curve, longest, measured_cost)
    drafter.use(adaptive)
    got = run(case, drafter, longest, replace(INTACT, controller=lambda _, __: adaptive), target)
    assert not difference(plain_of(case), got)


@given(cases(), drafts_of_chance, draft_lengths, st.integers(0, 4))
@settings(FIXED, max_examples=100)
def test_a_target_with_a_bounded_memory_gives_the_same_text(
    case: Case, drafts: list[list[int]], draft_length: int, rewind_limit: int
) -> None:
    target = ToyModel(case.toy_seed, context_size=case.context_size, rewind_limit=rewind_limit)
    assert_exact(case, ScriptedDrafter(drafts), draft_length, target)


turns = st.tuples(
    st.sampled_from(["continue", "again", "back", "new"]), st.lists(tokens_of_any_kind, min_size=1, max_size=12)
)
stops_at = st.one_of(st.just(0), st.just(0), st.integers(1, 12))


@given(
    st.lists(st.tuples(turns, stops_at, stops_at, samplings), min_size=2, max_size=5),
    st.sampled_from(["draft model", "lookup", "suffix", "hybrid", "off"]),
    draft_lengths,
)
@settings(FIXED, max_examples=120)
def test_answers_late_in_a_conversation_equal_those_of_a_new_session(
    conversation: Sequence[tuple[tuple[str, list[int]], int, int, SamplingParams]], name: str, draft_length: int
) -> None:
    target, model = StoppingModel(), StoppingModel(unlikeness=0.3)
    drafter: Drafter = {
        "draft model": DraftModel(model, target.vocab),
        "lookup": PromptLookup(target.vocab.is_end, 2),
        "suffix": SuffixDrafter(target.vocab.is_end),
        "hybrid": Hybrid(
            [SuffixDrafter(target.vocab.is_end)], DraftModel(model, target.vocab), Whimsical(draft_length)
        ),
        "off": NullDrafter(),
    }[name]
    session = Session(target, drafter, FakeClock())
    prompt: tuple[int, ...] = ()
    for (kind, added), stop_target, stop_draft, sampling in conversation:
        whole = tuple(session.tokens)
        kept = {"continue": whole, "again": prompt, "back": prompt[: len(prompt) // 2], "new": ()}[kind]
        prompt = kept if kept and kind == "again" else (*kept, *added)
        case = Case(prompt, sampling, budget=16)
        target.stop_at = stop_target and len(target.passes) + stop_target
        model.stop_at = stop_draft and len(model.passes) + stop_draft
        try:
            got = run_in(session, case, draft_length)
        except Cancelled:
            said = session.tokens[len(prompt) :]
            assert tuple(said) == plain_of(case).tokens[: len(said)]
        else:
            assert not difference(plain_of(case), got)


def test_every_draft_is_exact_at_each_place_where_the_answer_can_be_cut() -> None:
    # The oracle's draft reaches past every cut, so the cut itself is what is compared.
    whole = plain_of(Case(tuple(ToyVocab().tokenize("the cat")), SamplingParams(seed=3), budget=20))
    prompt = tuple(ToyVocab().tokenize("the cat"))
    for budget, draft_length in product(range(1, 21), (1, 4, 16)):
        case = Case(prompt, SamplingParams(seed=3), budget=budget)
        got = assert_exact(case, OracleDrafter(whole.tokens), draft_length)
        assert len(got.tokens) == budget
    for place, draft_length in product(range(1, 19), (1, 4, 16)):
        stop = whole.text[place : place + 2]
        case = Case(prompt, SamplingParams(seed=3), budget=20, stops=(stop,))
        got = assert_exact(case, OracleDrafter(whole.tokens), draft_length)
        assert got.finish is Finish.STOP
        assert got.text == whole.text[: whole.text.index(stop)]
    for room, draft_length in product(range(20), (1, 4, 16)):
        case = Case(prompt, SamplingParams(seed=3), budget=None, context_size=len(prompt) + room)
        got = assert_exact(case, OracleDrafter(whole.tokens), draft_length)
        assert got.finish is Finish.CONTEXT
        assert len(got.tokens) == room + 1
