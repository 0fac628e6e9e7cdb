"""Drafts that are drawn, as the residual and the block rule want them: from what, and with which coins."""

from collections import Counter

import numpy as np
import pytest
from fakes import FakeClock, StoppingModel
from sampling_reference import probabilities

from app.engine.conversation.session import Session
from app.engine.decoding.controller import FixedLength
from app.engine.decoding.ending import Ending
from app.engine.decoding.round import Round
from drafters.draft_model import DraftModel
from models.base import LanguageModel
from models.sampling.accept import Accept
from models.sampling.sampler import DraftTrial, Sampler, SamplingParams
from models.toy import ToyModel, ToyVocab

VOCAB = ToyVocab()
PROMPT = VOCAB.tokenize("the cat sat on the mat. the cat")
WHOLE = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=3)
DRAWING = (Accept.RESIDUAL, Accept.BLOCK)


def drafted(accept: Accept, params: SamplingParams = WHOLE, length: int = 4, unlikeness: float = 0.5):
    drafter = DraftModel(ToyModel(0, unlikeness=unlikeness), VOCAB)
    drafter.begin(PROMPT, Sampler(params, accept))
    return drafter.propose(PROMPT, length)


def rows_of(model: LanguageModel, tokens: tuple[int, ...]) -> list[np.ndarray]:
    model.decode(PROMPT, rows=0)
    return [model.decode([token], rows=1)[0].copy() for token in tokens]


@pytest.mark.parametrize("accept", DRAWING)
@pytest.mark.parametrize("params", [WHOLE, SamplingParams(temperature=0.7, top_k=5, seed=4)], ids=["whole", "cut"])
def test_a_drawn_draft_keeps_the_distributions_it_was_drawn_from(accept: Accept, params: SamplingParams) -> None:
    draft = drafted(accept, params)
    assert draft.probs is not None
    model = ToyModel(0, unlikeness=0.5)
    model.decode(PROMPT[:-1], rows=0)
    for place, (token, distribution) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        last = PROMPT[-1] if place == 0 else draft.tokens[place - 1]
        row = model.decode([last], rows=1)[0]
        expected = probabilities(Sampler(params), row, PROMPT, draft.tokens[:place])
        assert np.array_equal(distribution.at(np.arange(VOCAB.size)), expected)
        assert distribution.of(token) > 0


@pytest.mark.parametrize("accept", [Accept.COUPLED, Accept.TYPICAL])
def test_other_rules_guess_with_the_targets_own_noise_and_keep_no_distribution(accept: Accept) -> None:
    same = drafted(accept, unlikeness=0.0)
    assert same.probs is None
    target = ToyModel(0)
    target.decode(PROMPT[:-1], rows=0)
    said: list[int] = []
    for _ in same.tokens:
        row = target.decode([[*PROMPT, *said][-1]], rows=1)[0]
        said.append(Sampler(WHOLE).pick(row, PROMPT, said))
    assert same.tokens == tuple(said)


@pytest.mark.parametrize("accept", list(Accept))
def test_at_temperature_0_every_rule_drafts_the_likeliest_token(accept: Accept) -> None:
    greedy = SamplingParams(temperature=0)
    assert drafted(accept, greedy) == drafted(Accept.COUPLED, greedy)
    assert drafted(accept, greedy).probs is None


@pytest.mark.parametrize("logits", [(3, 2, 1), (1, 2, 3), (2, 3, 1), (1, 3, 2), (2, 2, 2), (1, 3, 1)], ids=str)
def test_at_temperature_0_the_second_choice_is_the_likeliest_of_the_others(logits: tuple[float, ...]) -> None:
    said = Sampler(SamplingParams(temperature=0)).proposal(np.array(logits, np.float32), PROMPT, [])
    by_logit = sorted(range(3), key=lambda token: -logits[token])
    assert [said.token, said.runner_up] == by_logit[:2]


@pytest.mark.parametrize("logits", [(3.0,), (3, -np.inf), (-np.inf, 3)], ids=str)
def test_a_token_that_can_not_be_said_is_no_second_choice(logits: tuple[float, ...]) -> None:
    row = np.array(logits, np.float32)
    assert Sampler(SamplingParams(temperature=0)).proposal(row, PROMPT, []).runner_up is None


def test_guesses_are_drawn_with_the_chances_they_say() -> None:
    row = np.log(np.array([0.5, 0.25, 0.15, 0.1], np.float32))
    count = 4000
    proposals = [proposal(row, seed) for seed in range(count)]
    firsts = Counter(proposal.token for proposal in proposals)
    pairs = Counter((proposal.token, proposal.runner_up) for proposal in proposals)
    probs = np.exp(row) / np.exp(row).sum()
    for token, prob in enumerate(probs):
        assert abs(firsts[token] / count - prob) < 5 * np.sqrt(prob * (1 - prob) / count)
        for other in {*range(4)} - {token}:
            pair = prob * probs[other] / (1 - prob)
            assert abs(pairs[token, other] / count - pair) < 5 * np.sqrt(pair * (1 - pair) / count)


def proposal(
    row: np.ndarray, seed: int, context: tuple[int, ...] = (1, 2), proposals: tuple[int, ...] = ()
) -> DraftTrial:
    params = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=seed)
    return Sampler(params, Accept.BLOCK).proposal(row, context, proposals)


def test_a_later_round_draws_anew_for_the_places_it_comes_to_again() -> None:
    row = np.zeros(32, np.float32)
    same = sum(
        proposal(row, seed, (1, 2), (7,)).token == proposal(row, seed, (1, 2, 7), ()).token for seed in range(2000)
    )
    # One in 32 by chance.
    assert 30 < same < 100


def test_drafts_are_not_drawn_with_the_noise_that_plain_decoding_has() -> None:
    row = np.zeros(32, np.float32)
    same = sum(proposal(row, seed).token == Sampler(draft_params(seed)).pick(row, (1, 2)) for seed in range(2000))
    assert 30 < same < 100


def draft_params(seed: int) -> SamplingParams:
    return SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=seed)


def test_whether_another_guess_is_drawn_is_decided_before_it_is_drawn() -> None:
    """What is heard is about the guesses that are in the draft already; the last one is never dropped again."""
    drafter = DraftModel(ToyModel(0, unlikeness=0.5), VOCAB)
    drafter.begin(PROMPT, Sampler(WHOLE, Accept.RESIDUAL))
    heard: list[tuple[float, ...]] = []

    def goes_on(drafter_confidence: tuple[float, ...]) -> bool:
        heard.append(drafter_confidence)
        return len(drafter_confidence) < 3

    draft = drafter.extend(PROMPT, (), 8, goes_on)
    assert [len(drafter_confidence) for drafter_confidence in heard] == [1, 2, 3]
    assert len(draft.tokens) == 3
    assert draft.confidence == heard[-1]


@pytest.mark.parametrize("accept", DRAWING)
def test_a_drawn_answer_is_the_same_each_time_and_its_cache_is_in_order(accept: Accept) -> None:
    answers = [answered(accept, seed=5) for _ in range(2)]
    assert answers[0] == answers[1]
    assert answered(accept, seed=6) != answers[0]


def answered(accept: Accept, seed: int) -> list[int]:
    target = StoppingModel(0)
    drafter = DraftModel(ToyModel(0, unlikeness=0.5), target.vocab)
    session = Session(target, drafter, FakeClock())
    params = SamplingParams(temperature=1.0, seed=seed)
    for event in session.answer(PROMPT, Sampler(params, accept), Ending(target.vocab, budget=40), FixedLength(4)):
        if isinstance(event, Round):
            assert target._cache == session.tokens[: target.length]
            assert drafter._cached == session.tokens[: len(drafter._cached)]
    assert session.stats.accepted > 0
    return session.tokens


def test_without_drafting_every_rule_says_what_plain_decoding_says() -> None:
    for accept in Accept:
        target = ToyModel(0)
        session = Session(target, DraftModel(ToyModel(0), target.vocab), FakeClock())
        ending = Ending(target.vocab, budget=30)
        list(session.answer(PROMPT, Sampler(WHOLE, accept), ending, FixedLength(0)))
        assert session.tokens == plain_tokens()


def plain_tokens() -> list[int]:
    target = ToyModel(0)
    target.decode(PROMPT[:-1], rows=0)
    tokens = list(PROMPT)
    for _ in range(30):
        tokens.append(Sampler(WHOLE).pick(target.decode([tokens[-1]], rows=1)[0], tokens))
        if target.vocab.is_end(tokens[-1]):
            break
    return tokens
