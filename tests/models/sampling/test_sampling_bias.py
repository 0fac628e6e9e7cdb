"""Biases are added to logits before anything else, in every distribution that a sampler has."""

from dataclasses import replace

import numpy as np
import pytest
from checking import FIXED
from hypothesis import given
from hypothesis import strategies as st
from sampling_reference import HISTORIES, PARAMS, ROWS, Row

from models.errors import UsageError
from models.sampling.sampler import BANNED, Sampler, SamplingParams

BIASES = st.dictionaries(st.integers(0, 5), st.floats(-20, 20, width=32), max_size=4)


@FIXED
@given(PARAMS, ROWS, BIASES, HISTORIES, HISTORIES)
def test_a_bias_is_as_if_the_model_had_said_so(
    params: SamplingParams, row: Row, bias: dict[int, float], tokens: list[int], drafted: list[int]
) -> None:
    changed = row.copy()
    for token, value in bias.items():
        if token < len(row):
            changed[token] += np.float32(value)
    plain, biased = Sampler(params), Sampler(_with(params, *bias.items()))
    assert biased.pick(row, tokens, drafted) == plain.pick(changed, tokens, drafted)
    assert biased.proposal(row, tokens, drafted) == plain.proposal(changed, tokens, drafted)
    one, other = biased.served(row, tokens, drafted), plain.served(changed, tokens, drafted)
    assert one.ids.tolist() == other.ids.tolist()
    assert one.probs.tolist() == other.probs.tolist()


@FIXED
@given(PARAMS, ROWS)
def test_a_banned_token_never_comes_while_there_is_another(params: SamplingParams, row: Row) -> None:
    likeliest = int(row.argmax())
    if len(row) > 1 and np.isfinite(row).sum() > 1:
        assert Sampler(_with(params, (likeliest, BANNED))).pick(row, [0]) != likeliest
    everything = tuple((token, BANNED) for token in range(len(row)))
    assert 0 <= Sampler(_with(params, *everything)).pick(row, [0]) < len(row)


def test_a_bias_changes_no_row_of_the_model() -> None:
    row = np.zeros(4, np.float32)
    Sampler(SamplingParams(bias=((1, 5.0),))).pick(row, [0])
    assert row.tolist() == [0, 0, 0, 0]


def test_a_bias_beyond_all_logits_is_refused() -> None:
    with pytest.raises(UsageError, match="bias"):
        SamplingParams(bias=((1, 2e6),))


def _with(params: SamplingParams, *bias: tuple[int, float]) -> SamplingParams:
    return replace(params, bias=bias)
