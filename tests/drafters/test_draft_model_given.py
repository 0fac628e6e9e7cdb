"""A draft model with given draft tokens: what it reads of them, where it cuts, and that its draft stays its own."""

import pytest
from checking import FIXED
from drafting import PROMPT, SAMPLER, VOCAB, bounded, fresh_draft, new_drafter, proposals_of_chance
from fakes import StoppingModel
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_reference import probabilities

from drafters.base import NO_DRAFT
from drafters.draft_model import DraftModel
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab


@given(st.integers(0, 6), proposals_of_chance, st.integers(0, 9), st.sampled_from([0.0, 0.3, 2.0]))
@settings(FIXED, max_examples=150)
def test_with_guesses_given_the_draft_is_the_very_one_without_them(
    right: int, others: list[int], limit: int, unlikeness: float
) -> None:
    wanted = DraftModel(ToyModel(unlikeness=unlikeness), VOCAB)
    wanted.begin(PROMPT, SAMPLER)
    draft = wanted.propose(PROMPT, limit)
    given_proposals = [*fresh_draft(PROMPT, right, unlikeness), *others]
    drafter = DraftModel(ToyModel(unlikeness=unlikeness), VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    assert drafter.extend(PROMPT, given_proposals, limit, bounded(99)) == draft


@pytest.mark.parametrize("right", range(5))
def test_given_guesses_are_read_in_one_pass_and_cut_at_the_first_disagreement(right: int) -> None:
    wanted = fresh_draft(PROMPT, 8)
    wrong = (wanted[right] + 1) % 28
    model = StoppingModel()
    drafter = DraftModel(model, VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    draft = drafter.extend(PROMPT, [*wanted[:right], wrong, *wanted[right + 1 : 6]], 8, bounded(0))
    assert draft.tokens == wanted[: right + 1], "what it agrees with, and its own word in place of the first other"
    assert len(draft.confidence) == right + 1
    assert model.passes == [(len(PROMPT) + 6, 7)]
    assert model._cache == [*PROMPT, *wanted[:right]]


def test_guesses_that_are_all_right_are_gone_on_with_as_long_as_it_is_wished() -> None:
    wanted = fresh_draft(PROMPT, 8)
    heard: list[tuple[float, ...]] = []

    def goes_on(drafter_confidence: tuple[float, ...]) -> bool:
        heard.append(drafter_confidence)
        return len(drafter_confidence) < 6

    drafter = DraftModel(ToyModel(), VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    draft = drafter.extend(PROMPT, wanted[:3], 8, goes_on)
    assert draft.tokens == wanted[:6]
    assert heard == [draft.confidence[:length] for length in (4, 5, 6)]


def test_no_more_guesses_are_read_than_a_pass_gives_rows_for() -> None:
    model = StoppingModel()
    model.max_rows = 4
    drafter = DraftModel(model, VOCAB)
    drafter.begin(PROMPT, SAMPLER)
    wanted = fresh_draft(PROMPT, 8)
    assert drafter.extend(PROMPT, wanted, 8, bounded(99)).tokens == wanted
    assert model.passes[0] == (len(PROMPT) + 3, 4)


def test_a_given_guess_that_is_a_padding_row_of_the_target_is_not_read() -> None:
    drafter = DraftModel(ToyModel(), ToyVocab(padding=5))
    drafter.begin(PROMPT, SAMPLER)
    assert drafter.extend(PROMPT, [VOCAB.size + 1], 4, bounded(99)) == NO_DRAFT
    assert drafter.extend(PROMPT, [], 4, bounded(99)).tokens == fresh_draft(PROMPT, 4)


def test_how_sure_a_guess_is_is_about_its_probability() -> None:
    drafter = new_drafter()
    drafter.begin(PROMPT, Sampler(SamplingParams(temperature=0)))
    draft = drafter.propose(PROMPT, 6)
    for place, (proposal, sure) in enumerate(zip(draft.tokens, draft.confidence, strict=True)):
        row = ToyModel(unlikeness=0.3).decode([*PROMPT, *draft.tokens[:place]], 1)[0]
        probs = probabilities(Sampler(SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0)), row, [])
        assert sure == pytest.approx(probs[proposal], rel=1e-4)
