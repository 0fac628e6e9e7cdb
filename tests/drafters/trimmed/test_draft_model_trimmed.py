"""A draft model with fewer tokens: the target's text, drafts of its own tokens alone, refusals."""

import numpy as np
import pytest
from fakes import Case, plain, run
from small_toy import SmallToy, map_without

from drafters.draft_model import DraftModel
from models.errors import PairError
from models.sampling.sampler import Sampler, SamplingParams
from models.token_map import TokenMap
from models.toy import ToyModel, ToyVocab
from models.trimmed import TrimmedModel

VOCAB = ToyVocab()
LEFT_OUT = tuple(VOCAB.tokenize("eao"))
MAP = map_without(LEFT_OUT, VOCAB.size)
PROMPT = tuple(VOCAB.tokenize("the cat sat on the mat. the cat"))


def trimmed(seed: int = 0, unlikeness: float = 0.0) -> DraftModel:
    return DraftModel(SmallToy(ToyModel(seed, unlikeness=unlikeness), MAP), VOCAB, MAP)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_texts_are_those_of_plain_decoding(temperature: float) -> None:
    case = Case(PROMPT, SamplingParams(temperature, seed=3), budget=60)
    answer = run(case, trimmed(unlikeness=0.2), 4)
    assert answer.tokens == plain(case).tokens
    assert len(answer.tokens) > 3


def test_no_token_that_it_lacks_is_drafted_and_all_others_are_the_models_own() -> None:
    whole, few = DraftModel(ToyModel(), VOCAB), trimmed()
    seen = 0
    for seed in range(40):
        prompt = [token for token in PROMPT if token not in LEFT_OUT] + [seed % 20 + 8]
        for drafter in (whole, few):
            drafter.begin(prompt, Sampler(SamplingParams(0.9, seed=seed)))
        one, other = (drafter.propose(prompt, 6).tokens for drafter in (whole, few))
        assert not set(other) & set(LEFT_OUT)
        same = next((place for place, token in enumerate(one) if token in LEFT_OUT), len(one))
        assert one[:same] == other[:same]
        seen += same
    assert seen > 40


def test_rows_are_those_of_the_model_for_its_tokens_and_minus_infinity_for_others() -> None:
    model = TrimmedModel(SmallToy(ToyModel(), MAP), MAP, VOCAB)
    whole = ToyModel()
    text = [token for token in PROMPT if token not in LEFT_OUT]
    rows, wanted = model.decode(text, 4), whole.decode(text, 4)
    assert np.array_equal(rows[:, MAP.kept], wanted[:, MAP.kept])
    assert (rows[:, list(LEFT_OUT)] == -np.inf).all()
    model.rewind(3)
    assert model.length == 3


def test_a_token_that_it_lacks_is_read_as_the_nearest() -> None:
    model = TrimmedModel(SmallToy(ToyModel(), MAP), MAP, VOCAB)
    first = model.decode([LEFT_OUT[0], 9], 1).copy()
    model.rewind(0)
    assert np.array_equal(model.decode([int(MAP.kept[0]), 9], 1), first)


@pytest.mark.parametrize(
    ("token_map", "words"),
    [
        (map_without(LEFT_OUT, VOCAB.size + 5), "of another target: this one has 32"),
        (TokenMap(np.flip(MAP.kept).copy(), MAP.nearest), "for the target"),
    ],
)
def test_a_map_of_another_target_is_refused(token_map: TokenMap, words: str) -> None:
    with pytest.raises(PairError) as caught:
        DraftModel(SmallToy(ToyModel(), MAP), VOCAB, token_map)
    assert words in caught.value.cause


def test_a_drafter_beside_it_has_the_map_too() -> None:
    other = trimmed().beside(SmallToy(ToyModel(), MAP))
    other.begin(PROMPT, Sampler(SamplingParams()))
    assert not set(other.propose(PROMPT, 4).tokens) & set(LEFT_OUT)
