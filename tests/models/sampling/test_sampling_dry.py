"""DRY: what would prolong a repetition costs more the longer it is, and nothing behind a breaker does."""

from dataclasses import replace

import numpy as np
import pytest
from checking import FIXED
from hypothesis import given
from hypothesis import strategies as st
from sampling_reference import HISTORIES, PARAMS, ROWS, Row

from models.errors import UsageError
from models.sampling.dry import Dry, breaker_tokens, penalties
from models.sampling.sampler import Sampler, SamplingParams
from models.toy import ToyVocab

TEXTS = st.lists(st.integers(0, 3), max_size=40)
SETTINGS = st.builds(
    Dry,
    multiplier=st.sampled_from([0.5, 2.0]),
    base=st.sampled_from([1.0, 1.5, 3.0]),
    allowed_length=st.integers(1, 4),
    window=st.integers(-1, 30),
    breakers=st.frozensets(st.integers(0, 3), max_size=2),
)


def expected(text: list[int], dry: Dry) -> dict[int, float]:
    """Return the penalties from the definition, by trying every earlier place."""
    text = text[-dry.window :] if dry.window > 0 else text if dry.window else []
    since = next((place for place, token in enumerate(reversed(text)) if token in dry.breakers), len(text))
    longest: dict[int, int] = {}
    for place in range(1, len(text)):
        length = 0
        while length < min(since, place) and text[place - 1 - length] == text[len(text) - 1 - length]:
            length += 1
        longest[text[place]] = max(longest.get(text[place], 0), length)
    return {
        token: dry.multiplier * dry.base ** (length - dry.allowed_length)
        for token, length in longest.items()
        if length >= dry.allowed_length and token not in dry.breakers
    }


@FIXED
@given(TEXTS, SETTINGS)
def test_penalties_are_those_of_the_definition(text: list[int], dry: Dry) -> None:
    ids, amounts = penalties(text, dry)
    assert dict(zip(ids.tolist(), amounts.tolist(), strict=True)) == pytest.approx(expected(text, dry))


def test_a_long_repetition_has_a_largest_penalty_that_is_finite() -> None:
    ids, amounts = penalties([1, 2] * 4000, Dry(1.0))
    assert ids.tolist() == [1]
    assert 1e6 <= amounts[0] < 2e6


@FIXED
@given(PARAMS, ROWS, SETTINGS, HISTORIES, HISTORIES)
def test_it_is_taken_from_the_logits_that_the_other_penalties_leave(
    params: SamplingParams, row: Row, dry: Dry, tokens: list[int], drafted: list[int]
) -> None:
    changed = Sampler(params)._penalised(row, tokens, drafted).copy()
    for token, amount in expected([*tokens, *drafted], dry).items():
        if token < len(row):
            changed[token] -= np.float32(amount)
    bare = replace(params, repeat_penalty=1.0, frequency_penalty=0.0, presence_penalty=0.0)
    assert Sampler(replace(params, dry=dry)).pick(row, tokens, drafted) == Sampler(bare).pick(changed, tokens, drafted)


def test_breakers_are_the_tokens_that_contain_one_of_the_texts() -> None:
    vocab = ToyVocab()
    assert breaker_tokens(vocab, ("a", "zz")) == frozenset(vocab.tokenize("a"))
    assert breaker_tokens(vocab, ("",)) == frozenset()


@pytest.mark.parametrize("wrong", [{"multiplier": 0}, {"base": 0.5}, {"allowed_length": 0}, {"window": -2}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="dry-"):
        Dry(**{"multiplier": 1.0, **wrong})  # type: ignore[arg-type]
