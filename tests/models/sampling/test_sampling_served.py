"""The served distribution is that of an obvious implementation, in small and in large vocabularies."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from checking import FIXED, ONCE, caught
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sampling_reference import (
    EVERY_PATH,
    HISTORIES,
    LLAMA_CPP_ORDER,
    PENALTIES,
    ROWS,
    TRUNCATIONS,
    UNTRUNCATED,
    CloseCall,
    Logits,
    Probs,
    Row,
    Served,
    Stage,
    cut,
    min_p,
    penalised,
    probabilities,
    reference,
    row_of,
    temper,
    top_k,
    top_p,
    window_of,
)

import models.sampling.sampler
import models.sampling.truncation
from models.sampling.sampler import Sampler, SamplingParams, serve


def own(params: SamplingParams, row: Row, tokens: Sequence[int], drafted: Sequence[int]) -> Probs:
    return probabilities(Sampler(params), row, tokens, drafted)


def check_distribution(served: Served, how: settings, params_: st.SearchStrategy[SamplingParams]) -> None:
    @settings(how, max_examples=300)
    @given(params_, ROWS, HISTORIES, HISTORIES)
    def holds(params: SamplingParams, row: Row, tokens: list[int], drafted: list[int]) -> None:
        try:
            expected = reference(params, row, tokens + drafted)
        except CloseCall:
            assume(False)
        probs = served(params, row, tokens, drafted)
        assert probs.shape == row.shape
        assert probs.sum() == pytest.approx(1, abs=1e-12)
        exact = 1e-4 if params.penalises else 1e-12
        for token, prob in enumerate(probs):
            assert prob == pytest.approx(expected.get(token, 0.0), abs=exact, rel=exact)
            assert prob > 0 or expected.get(token, 0.0) < 1e-300

    holds()


@pytest.mark.parametrize("params_", [TRUNCATIONS, PENALTIES], ids=["truncations", "penalties"])
def test_the_served_distribution_is_what_a_slow_and_obvious_implementation_says(
    params_: st.SearchStrategy[SamplingParams],
) -> None:
    check_distribution(own, FIXED, params_)


def broken_by(
    stages: Sequence[Stage] = LLAMA_CPP_ORDER,
    penalise: Callable[[Logits, SamplingParams, list[int]], Logits] = penalised,
) -> Served:
    """Return the slow implementation with a fault."""

    def served(params: SamplingParams, row: Row, tokens: Sequence[int], drafted: Sequence[int]) -> Probs:
        probs = np.zeros(len(row))
        for token, prob in reference(params, row, [*tokens, *drafted], stages=stages, penalise=penalise).items():
            probs[token] = prob
        return probs

    return served


def top_p_exclusive(logits: Logits, params: SamplingParams) -> Logits:
    kept = top_p(logits, params)
    return cut(kept, max(1, len(kept) - 1)) if len(kept) < len(logits) else kept


def top_p_of_the_whole(logits: Logits, params: SamplingParams) -> Logits:
    return top_k(top_p(logits, params), params)


def last_of_equals(logits: Logits, params: SamplingParams) -> Logits:
    turned = {-token: logit for token, logit in logits.items()}
    return {-token: logit for token, logit in top_k(turned, params).items()}


def always_divides(logits: Logits, params: SamplingParams, history: list[int]) -> Logits:
    seen = set(window_of(params, history))
    right = penalised(logits, params, history)
    return {
        token: logits[token] / params.repeat_penalty - (logits[token] * params.repeat_penalty - logit)
        if token in seen and -math.inf < logits[token] < 0
        else logit
        for token, logit in right.items()
    }


def counts_presence(logits: Logits, params: SamplingParams, history: list[int]) -> Logits:
    window = Counter(window_of(params, history))
    right = penalised(logits, params, history)
    return {token: right[token] - max(0, window[token] - 1) * params.presence_penalty for token in right}


def forgets_the_newest(logits: Logits, params: SamplingParams, history: list[int]) -> Logits:
    return penalised(logits, params, history[:-1])


def one_too_many(logits: Logits, params: SamplingParams, history: list[int]) -> Logits:
    window = params.penalty_window
    return penalised(logits, replace(params, penalty_window=window + 1 if window >= 0 else window), history)


WRONG_TRUNCATIONS = {
    "temperature first": broken_by(stages=(temper, top_k, top_p, min_p)),
    "min-p before top-p": broken_by(stages=(top_k, min_p, top_p, temper)),
    "top-p before top-k": broken_by(stages=(top_p_of_the_whole, min_p, temper)),
    "top-p without the token that reaches it": broken_by(stages=(top_k, top_p_exclusive, min_p, temper)),
    "highest id of equals": broken_by(stages=(last_of_equals, top_p, min_p, temper)),
    "no min-p": broken_by(stages=(top_k, top_p, temper)),
}
WRONG_PENALTIES = {
    "repeat penalty lifts negative logits": broken_by(penalise=always_divides),
    "presence counted like frequency": broken_by(penalise=counts_presence),
    "newest token not penalised": broken_by(penalise=forgets_the_newest),
    "window one too wide": broken_by(penalise=one_too_many),
}


def check_is_caught(broken: Served, params_: st.SearchStrategy[SamplingParams]) -> None:
    def or_skip(params: SamplingParams, row: Row, tokens: Sequence[int], drafted: Sequence[int]) -> Probs:
        try:
            return broken(params, row, tokens, drafted)
        except CloseCall:
            assume(False)
            raise

    with caught():
        check_distribution(or_skip, ONCE, params_)


@pytest.mark.parametrize("name", list(WRONG_TRUNCATIONS))
def test_a_wrong_truncation_is_caught(name: str) -> None:
    check_is_caught(WRONG_TRUNCATIONS[name], TRUNCATIONS)


@pytest.mark.parametrize("name", list(WRONG_PENALTIES))
def test_a_wrong_penalty_is_caught(name: str) -> None:
    check_is_caught(WRONG_PENALTIES[name], PENALTIES)


def test_top_p_keeps_the_token_that_reaches_the_share_and_no_more() -> None:
    halves = row_of(1, 1, -100)
    assert own(replace(UNTRUNCATED, top_p=0.5), halves, [], []).tolist() == [1, 0, 0]
    assert own(replace(UNTRUNCATED, top_p=0.501), halves, [], []).tolist() == [0.5, 0.5, 0]


def test_top_p_is_counted_before_the_temperature() -> None:
    row = row_of(2, 1, 0)  # 0.665, 0.245, 0.090
    hot = own(replace(UNTRUNCATED, top_p=0.9, temperature=100.0), row, [], [])
    assert hot[2] == 0
    assert hot[0] == pytest.approx(0.5, abs=0.01)


def test_min_p_keeps_a_token_that_just_reaches_the_share() -> None:
    assert own(replace(UNTRUNCATED, min_p=1.0), row_of(3, 3, 2.9), [], []).tolist() == [0.5, 0.5, 0]


def test_at_least_one_token_is_always_kept() -> None:
    tightest = SamplingParams(top_k=1, top_p=1e-9, min_p=1.0)
    assert own(tightest, row_of(1, 2, 2), [], []).tolist() == [0, 1, 0]
    assert own(replace(tightest, top_k=0), row_of(1, 2, 2), [], []).tolist() == [0, 1, 0]


def test_a_vocabulary_of_one_token_has_no_choice() -> None:
    for params in EVERY_PATH:
        assert own(params, row_of(-3), [0], []).tolist() == [1.0]
        assert Sampler(params).pick(row_of(-3), [0]) == 0


def test_a_token_ruled_out_by_the_model_is_never_picked() -> None:
    row = row_of(-math.inf, 0.5, -math.inf)
    for params in EVERY_PATH:
        assert {Sampler(replace(params, seed=seed)).pick(row, [1]) for seed in range(50)} == {1}


# --- top-k in a large vocabulary --------------------------------------------------------------------------------------


def kept_by_top_k(row: Row, k: int) -> NDArray[np.int64]:
    return serve(row, replace(UNTRUNCATED, top_k=k)).ids


def sorted_top_k(row: Row, k: int) -> list[int]:
    ids: list[int] = np.argsort(-row, kind="stable")[: min(k, np.count_nonzero(row > -np.inf))].tolist()
    return ids


@cache
def wide_rows() -> dict[str, Row]:
    rng = np.random.default_rng(0)
    size = 152_064
    width = size // 64
    smooth = rng.normal(scale=3, size=size).astype(np.float32)
    in_one_column = smooth.copy()
    in_one_column[np.arange(50) * width + 5] = 100 + np.arange(50)
    in_one_line = smooth.copy()
    in_one_line[width : width + 60] = 100
    sparse = np.full(size, -np.inf, np.float32)
    sparse[rng.integers(0, size, 25)] = rng.normal(size=25)
    return {
        "smooth": smooth,
        "full of ties": smooth.round(),
        "all equal": np.zeros(size, np.float32),
        "ascending": np.arange(size, dtype=np.float32),
        "descending": -np.arange(size, dtype=np.float32),
        "best ones in one column of the grid": in_one_column,
        "best ones side by side": in_one_line,
        "nearly all ruled out": sparse,
        "size that no grid fits": smooth[: size - 37],
        "best ones beyond the grid": np.concatenate((smooth, np.full(63, 50, np.float32))),
    }


@pytest.mark.parametrize("name", list(wide_rows()))
def test_top_k_of_a_large_vocabulary_is_the_start_of_a_sort(name: str) -> None:
    row = wide_rows()[name]
    for k in (1, 2, 40, 64, 1000, 2375, 2376, 2377, 5000, len(row) - 1, len(row), len(row) + 1):
        assert kept_by_top_k(row, k).tolist() == sorted_top_k(row, k)


@FIXED
@given(st.data(), st.integers(60, 700), st.integers(1, 12))
def test_top_k_is_the_start_of_a_sort_for_every_size(data: st.DataObject, size: int, k: int) -> None:
    levels = data.draw(st.integers(1, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    row = rng.integers(0, levels, size).astype(np.float32)
    assert kept_by_top_k(row, k).tolist() == sorted_top_k(row, k)


def test_taking_the_best_of_each_column_for_the_best_of_all_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def peaks_alone(row: Row, k: int) -> NDArray[np.int64]:
        width = len(row) // 64
        peaks = row[: 64 * width].reshape(64, width).argmax(axis=0) * width + np.arange(width)
        return np.sort(peaks[np.argsort(-row[peaks], kind="stable")[:k]])

    monkeypatch.setattr(models.sampling.truncation, "_at_least_top", peaks_alone)
    with caught():
        test_top_k_of_a_large_vocabulary_is_the_start_of_a_sort("smooth")


def deep_rows() -> dict[str, Row]:
    rng = np.random.default_rng(1)
    size = 152_064
    flat = rng.normal(size=size).astype(np.float32)
    peaked = flat.copy()
    # A third of the probability in one token, and the rest so far below that no single other one matters.
    peaked[77] = 12.0
    ruled_out = flat.copy()
    ruled_out[::2] = -np.inf
    return {"flat": flat, "peaked": peaked, "half ruled out": ruled_out, "far apart": 1000 * flat}


def sorted_top_p(row: Row, share: float) -> set[int]:
    """Sort the whole vocabulary and sum it up."""
    order = np.argsort(-row, kind="stable")
    weight = np.exp(row[order].astype(np.float64) - float(row.max()))
    reached = np.cumsum(weight / weight.sum())
    return set(order[: int((reached < share).sum()) + 1].tolist())


@pytest.mark.parametrize("name", ["flat", "peaked", "half ruled out", "far apart"])
def test_top_p_of_a_large_vocabulary_is_a_sort_and_a_sum(name: str) -> None:
    row = deep_rows()[name]
    for share in (0.1, 0.3, 0.5, 0.9, 0.999):
        assert set(serve(row, replace(UNTRUNCATED, top_p=share)).ids.tolist()) == sorted_top_p(row, share)


def test_looking_at_the_top_alone_for_top_p_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def shallow(
        ids: NDArray[np.int64], logits: NDArray[np.float64], _: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        order = np.argsort(-logits, kind="stable")
        order = order[logits[order] >= logits.max() - 8.0]
        return ids[order], logits[order]

    monkeypatch.setattr(models.sampling.sampler, "sorted_top", shallow)
    with caught():
        test_top_p_of_a_large_vocabulary_is_a_sort_and_a_sum("peaked")
