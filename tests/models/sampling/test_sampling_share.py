"""How sure a row is of a token: about its probability, never under it for the likeliest, at any size of vocabulary."""

import numpy as np
import pytest
from checking import FIXED
from hypothesis import given
from hypothesis import strategies as st

from models.sampling.confidence import share


def probability(row: np.ndarray, token: int) -> float:
    weights = np.exp(row.astype(np.float64) - row.max())
    return float(weights[token] / weights.sum())


@FIXED
@given(st.integers(1, 400), st.integers(0, 2**32 - 1), st.floats(0.1, 8))
def test_the_likeliest_token_is_never_thought_less_likely_than_it_is(size: int, seed: int, spread: float) -> None:
    row = np.random.default_rng(seed).normal(scale=spread, size=size).astype(np.float32)
    best = int(row.argmax())
    sure = share(row, best)
    assert probability(row, best) - 1e-6 <= sure <= 1


@FIXED
@given(st.integers(1, 63), st.integers(0, 2**32 - 1))
def test_in_a_vocabulary_smaller_than_the_grid_it_is_the_probability(size: int, seed: int) -> None:
    row = np.random.default_rng(seed).normal(scale=3, size=size).astype(np.float32)
    best = int(row.argmax())
    assert share(row, best) == pytest.approx(probability(row, best), rel=1e-5)


@pytest.mark.parametrize("gap", [0.0, 1.0, 3.0, 8.0])
def test_in_a_large_vocabulary_it_is_close_where_few_tokens_matter(gap: float) -> None:
    row = np.full(150_000, -30, dtype=np.float32)
    row[[7, 50_000, 120_000]] = 5, 5 - gap, 4 - gap
    assert share(row, 7) == pytest.approx(probability(row, 7), rel=1e-3)
