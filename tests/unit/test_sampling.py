"""The served distribution is what a slow and obvious implementation says, and `pick` draws from exactly it."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from checking import FIXED, ONCE, caught
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import models.sampling
from models.errors import LocalspecError, UsageError
from models.noise import gumbel, strongest_gumbel
from models.sampling import Sampler, SamplingParams, serve

Row = NDArray[np.float32]
Probs = NDArray[np.float64]
Served = Callable[[SamplingParams, Row, Sequence[int], Sequence[int]], Probs]

UNTRUNCATED = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
GREEDY = SamplingParams(temperature=0.0)
EVERY_PATH = [
    SamplingParams(),
    UNTRUNCATED,
    GREEDY,
    SamplingParams(top_k=0),
    SamplingParams(top_p=1.0, min_p=0.0),
    SamplingParams(top_k=0, top_p=1.0),
    SamplingParams(repeat_penalty=1.3, frequency_penalty=0.2, presence_penalty=0.1),
    SamplingParams(temperature=0.0, repeat_penalty=1.3),
]
"""One set of parameters for each way through the sampler."""


def row_of(*logits: float) -> Row:
    return np.array(logits, np.float32)


# --- a slow and obvious implementation --------------------------------------------------------------------------------

Logits = dict[int, float]
"""What is left of the vocabulary: id to logit."""
Stage = Callable[[Logits, SamplingParams], Logits]


class CloseCall(Exception):
    """A cut went by less than rounding: right implementations may differ."""


def best_first(logits: Logits) -> list[int]:
    return sorted(logits, key=lambda token: (-logits[token], token))


def cut(logits: Logits, count: int) -> Logits:
    kept, dropped = best_first(logits)[:count], best_first(logits)[count:]
    if dropped and 0 < logits[kept[-1]] - logits[dropped[0]] < 1e-5:
        raise CloseCall
    return {token: logits[token] for token in kept}


def window_of(params: SamplingParams, history: list[int]) -> list[int]:
    if params.penalty_window == -1:
        return history
    return history[len(history) - min(params.penalty_window, len(history)) :]


def penalised(logits: Logits, params: SamplingParams, history: list[int]) -> Logits:
    result = dict(logits)
    for token, count in Counter(window_of(params, history)).items():
        if token in result:
            logit = result[token]
            logit = logit * params.repeat_penalty if logit <= 0 else logit / params.repeat_penalty
            result[token] = logit - count * params.frequency_penalty - params.presence_penalty
    return result


def top_k(logits: Logits, params: SamplingParams) -> Logits:
    return cut(logits, params.top_k) if params.top_k > 0 else logits


def weights(logits: Logits) -> dict[int, float]:
    highest = max(logits.values())
    return {token: math.exp(logit - highest) for token, logit in logits.items()}


def top_p(logits: Logits, params: SamplingParams) -> Logits:
    if params.top_p == 1:
        return logits
    weight = weights(logits)
    total = sum(weight.values())
    reached = 0.0
    for count, token in enumerate(best_first(logits), start=1):
        reached += weight[token] / total
        if abs(reached - params.top_p) < 1e-6:
            raise CloseCall
        if reached >= params.top_p:
            return cut(logits, count)
    return logits


def min_p(logits: Logits, params: SamplingParams) -> Logits:
    if params.min_p == 0:
        return logits
    weight = weights(logits)
    if any(0 < abs(share - params.min_p) < 1e-5 * params.min_p for share in weight.values()):
        raise CloseCall
    return {token: logits[token] for token in logits if weight[token] >= params.min_p}


def temper(logits: Logits, params: SamplingParams) -> Logits:
    return {token: logit / params.temperature for token, logit in logits.items()}


LLAMA_CPP_ORDER: tuple[Stage, ...] = (top_k, top_p, min_p, temper)


def reference(
    params: SamplingParams,
    row: Row,
    history: list[int],
    *,
    stages: Sequence[Stage] = LLAMA_CPP_ORDER,
    penalise: Callable[[Logits, SamplingParams, list[int]], Logits] = penalised,
) -> Logits:
    """Return the probability of each token that is kept."""
    logits = penalise({token: float(logit) for token, logit in enumerate(row)}, params, history)
    if params.temperature <= 0:
        return {best_first(logits)[0]: 1.0}
    for stage in stages:
        logits = stage(logits, params)
    weight = weights(logits)
    total = sum(weight.values())
    return {token: share / total for token, share in weight.items()}


# --- the served distribution ------------------------------------------------------------------------------------------

LOGITS = st.integers(-24, 24).map(lambda quarter: quarter / 4) | st.floats(-30, 30, width=32) | st.just(-math.inf)
HAND_MADE = (
    st.lists(LOGITS, min_size=1, max_size=12)
    .filter(lambda logits: max(logits) > -math.inf)
    .map(lambda logits: row_of(*logits))
)
SMOOTH = st.builds(
    lambda seed, size: np.random.default_rng(seed).normal(size=(size,)).astype(np.float32),
    st.integers(0, 2**32),
    st.integers(4, 12),
)
FULL_OF_TIES = st.lists(st.sampled_from([-1.5, 0.0, 0.25, 2.0]), min_size=4, max_size=12).map(lambda x: row_of(*x))
ROWS = HAND_MADE | SMOOTH | FULL_OF_TIES
HISTORIES = st.lists(st.integers(0, 12), max_size=12)
TRUNCATIONS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 0.8, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 3, 5, 8, 12, 40]),
    top_p=st.sampled_from([0.05, 0.5, 0.77, 0.87, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.013, 0.1, 0.3, 0.5, 1.0]),
    seed=st.integers(0, 5),
)
PENALTIES = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.8, 1.0]),
    top_k=st.sampled_from([0, 3]),
    top_p=st.sampled_from([0.77, 1.0]),
    min_p=st.just(0.0),
    repeat_penalty=st.sampled_from([0.7, 1.0, 1.5, 2.0]),
    frequency_penalty=st.sampled_from([-0.5, 0.0, 0.25, 1.0]),
    presence_penalty=st.sampled_from([-0.5, 0.0, 0.75]),
    penalty_window=st.sampled_from([-1, 0, 1, 2, 5, 64]),
    seed=st.integers(0, 5),
)
PARAMS = TRUNCATIONS | PENALTIES


def own(params: SamplingParams, row: Row, tokens: Sequence[int], drafted: Sequence[int]) -> Probs:
    return Sampler(params).distribution(row, tokens, drafted)


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
    ids: list[int] = np.argsort(-row, kind="stable")[:k].tolist()
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

    monkeypatch.setattr(models.sampling, "_at_least_top", peaks_alone)
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

    monkeypatch.setattr(models.sampling, "_sorted_top", shallow)
    with caught():
        test_top_p_of_a_large_vocabulary_is_a_sort_and_a_sum("peaked")


# --- picking ----------------------------------------------------------------------------------------------------------


@FIXED
@given(PARAMS, ROWS, HISTORIES, HISTORIES)
def test_pick_is_the_first_of_the_keys(params: SamplingParams, row: Row, tokens: list[int], drafted: list[int]) -> None:
    sampler = Sampler(params)
    ids, keys = sampler.keys(row, tokens, drafted)
    assert sampler.pick(row, tokens, drafted) == ids[0]
    assert len(set(ids.tolist())) == len(ids) == len(keys)
    assert all(better >= worse for better, worse in pairwise(keys))
    kept = np.flatnonzero(sampler.distribution(row, tokens, drafted))
    assert set(kept.tolist()) <= set(ids.tolist())


@FIXED
@given(TRUNCATIONS, ROWS, st.integers(0, 1000))
def test_keys_are_log_probabilities_and_noise(params: SamplingParams, row: Row, position: int) -> None:
    assume(not params.greedy)
    try:
        expected = reference(params, row, [])
    except CloseCall:
        assume(False)
    ids, keys = Sampler(params).keys(row, range(position))
    assert set(ids.tolist()) == set(expected)
    likely = [i for i, token in enumerate(ids) if expected[int(token)] > 1e-200]
    logs = np.array([math.log(expected[int(token)]) for token in ids[likely]])
    constants = keys[likely] - gumbel(params.seed, position, ids[likely]) - logs
    assert constants == pytest.approx(constants[0], abs=1e-9)


@FIXED
@given(PARAMS, ROWS, HISTORIES, st.integers(0, 12))
def test_only_the_history_counts_and_not_which_part_of_it_is_drafted(
    params: SamplingParams, row: Row, history: list[int], place: int
) -> None:
    sampler = Sampler(params)
    tokens, drafted = history[:place], history[place:]
    assert sampler.pick(row, tokens, drafted) == sampler.pick(row, history)
    assert sampler.distribution(row, tokens, drafted).tolist() == sampler.distribution(row, history).tolist()
    for split, whole in zip(sampler.keys(row, tokens, drafted), sampler.keys(row, history), strict=True):
        assert split.tolist() == whole.tolist()


def test_a_pick_depends_on_seed_and_position() -> None:
    row = np.zeros(64, np.float32)
    one, other = (
        [Sampler(replace(UNTRUNCATED, seed=seed)).pick(row, range(place)) for place in range(40)] for seed in (1, 2)
    )
    assert one != other
    assert len(set(one)) > 10


def brute_force(params: SamplingParams, row: Row, position: int) -> int:
    """Pick from the whole vocabulary, with the noise of every token."""
    scores = row.astype(np.float64) / params.temperature
    return int(np.argmax(scores + gumbel(params.seed, position, np.arange(len(row)))))


def check_untruncated(pick: Callable[[SamplingParams, Row, int], int], size: int, rounds: int) -> None:
    rng = np.random.default_rng(size)
    for position in range(rounds):
        temperature = float(rng.choice([0.05, 0.5, 0.8, 1.0, 2.5, 10.0]))
        params = replace(UNTRUNCATED, temperature=temperature, seed=position % 7)
        row = (rng.choice([0.0, 0.1, 1.0, 4.0, 30.0]) * rng.normal(size=size)).astype(np.float32)
        if rng.random() < 0.3:
            row = row.round()
        if rng.random() < 0.3:
            row[rng.integers(0, size, size // 2)] = -np.inf
            row[0] = 0
        row[rng.integers(0, size)] += rng.choice([0.0, 1.0, 12.0, 200.0])
        assert pick(params, row, position) == brute_force(params, row, position)


def pick_fast(params: SamplingParams, row: Row, position: int) -> int:
    return Sampler(params).pick(row, range(position))


@pytest.mark.parametrize(("size", "rounds"), [(1, 20), (2, 500), (32, 2000), (1000, 500), (152_064, 40)])
def test_the_quick_way_without_truncation_is_brute_force(size: int, rounds: int) -> None:
    check_untruncated(pick_fast, size, rounds)


def test_ruling_out_tokens_that_could_win_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.sampling, "strongest_gumbel", lambda *where: strongest_gumbel(*where) - 1.0)
    # Where nothing is left to pick from, it is a ValueError.
    with pytest.raises((AssertionError, ValueError)):
        check_untruncated(pick_fast, 32, 2000)


def narrow_wins(rounds: int) -> list[tuple[SamplingParams, Row, int, int]]:
    """Return rows where the token with the strongest noise wins by as little as float32 allows."""
    rng = np.random.default_rng(0)
    cases = []
    for position in range(rounds):
        params = replace(UNTRUNCATED, temperature=float(rng.uniform(0.3, 6)), seed=3)
        noise = gumbel(3, position, np.arange(32))
        winner = int(noise.argmax())
        likeliest = (winner + 1) % 32
        row = np.full(32, -1e4, np.float32)
        row[likeliest] = rng.uniform(5, 30)
        to_beat = float(row[likeliest]) / params.temperature + noise[likeliest]
        row[winner] = (to_beat - noise[winner]) * params.temperature
        while float(row[winner]) / params.temperature + noise[winner] <= to_beat:
            row[winner] = np.nextafter(row[winner], np.float32(np.inf))
        cases.append((params, row, position, winner))
    return cases


def check_narrow_wins(pick: Callable[[SamplingParams, Row, int], int]) -> None:
    for params, row, position, winner in narrow_wins(1000):
        assert pick(params, row, position) == winner


def test_a_win_by_a_hair_is_a_win() -> None:
    check_narrow_wins(pick_fast)


def test_comparing_in_single_precision_is_caught() -> None:
    def pick(params: SamplingParams, row: Row, position: int) -> int:
        noise = gumbel(params.seed, position, np.arange(len(row)))
        best = row.argmax()
        floor = (row[best] / np.float32(params.temperature) + noise[best] - noise.max()) * params.temperature
        ids = np.flatnonzero(row >= np.nextafter(np.float32(floor), np.float32(-np.inf)))
        return int(ids[np.argmax(row[ids].astype(np.float64) / params.temperature + noise[ids])])

    with caught():
        check_narrow_wins(pick)


# --- picks follow the distribution ------------------------------------------------------------------------------------

LUMPY = row_of(2.0, 0.6, 1.5, 0.0, -1.0, -2.5, 0.9, -0.2)
FITS = {
    "plain": UNTRUNCATED,
    "hot": replace(UNTRUNCATED, temperature=1.8),
    "cold": replace(UNTRUNCATED, temperature=0.6),
    "top-k": replace(UNTRUNCATED, top_k=3),
    "top-p": replace(UNTRUNCATED, top_p=0.8),
    "min-p": replace(UNTRUNCATED, min_p=0.2),
    "defaults": SamplingParams(),
    "penalties": replace(UNTRUNCATED, repeat_penalty=1.5, presence_penalty=0.3, penalty_window=3),
}
PICKS = 4_000
TOO_UNLIKELY = 47.0
"""A chi-square of 7 degrees of freedom is larger with odds 6e-8, one of fewer with lower odds."""


def chi_square(counts: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    possible = expected > 0
    assert counts[~possible].sum() == 0
    return float(((counts - expected)[possible] ** 2 / expected[possible]).sum())


def misfit(params: SamplingParams) -> float:
    """Return the chi-square of many picks from one row against its distribution."""
    sampler = Sampler(params)
    drafted = (1, 3, 3)
    picks = [sampler.pick(LUMPY, range(100, 100 + position), drafted) for position in range(PICKS)]
    counts = np.bincount(picks, minlength=len(LUMPY)).astype(np.float64)
    return chi_square(counts, PICKS * sampler.distribution(LUMPY, [], drafted))


@pytest.mark.parametrize("name", list(FITS))
def test_picks_follow_the_distribution(name: str) -> None:
    assert misfit(FITS[name]) < TOO_UNLIKELY


@pytest.mark.parametrize("name", ["plain", "defaults"])
@pytest.mark.parametrize(
    "broken",
    [
        lambda seed, position, ids: 1.3 * gumbel(seed, position, ids),
        lambda seed, position, ids: gumbel(seed, position // 40, ids),
        lambda seed, position, ids: np.random.default_rng([seed, position]).normal(scale=1.28, size=ids.shape),
    ],
    ids=["noise too wide", "noise used again", "normal noise"],
)
def test_picks_with_other_noise_are_caught(
    name: str, broken: Callable[..., NDArray[np.float64]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.sampling, "gumbel", broken)
    monkeypatch.setattr(models.sampling, "strongest_gumbel", lambda *where: max(broken(*where[:2], np.arange(8))))
    assert misfit(FITS[name]) > TOO_UNLIKELY


def dependence(picks: Sequence[int]) -> float:
    """Return the chi-square of neighbouring picks against independence."""
    pairs = np.zeros((3, 3))
    for one, next_one in pairwise(picks):
        pairs[one, next_one] += 1
    return chi_square(pairs, np.outer(pairs.sum(axis=1), pairs.sum(axis=0)) / pairs.sum())


def test_picks_at_neighbouring_positions_are_independent() -> None:
    # 4 degrees of freedom: above 40 with odds 4e-8.
    row = row_of(0.5, 0, 0)
    assert dependence([Sampler(UNTRUNCATED).pick(row, range(place)) for place in range(PICKS)]) < 40
    assert dependence([Sampler(UNTRUNCATED).pick(row, range(place - place % 2)) for place in range(PICKS)]) > 40


# --- greedy -----------------------------------------------------------------------------------------------------------


@FIXED
@given(ROWS, st.sampled_from([0.0, -1.0]), st.integers(0, 9))
def test_temperature_0_is_certain_of_the_lowest_id_among_the_likeliest(row: Row, temperature: float, seed: int) -> None:
    sampler = Sampler(SamplingParams(temperature=temperature, seed=seed))
    likeliest = min(token for token, logit in enumerate(row) if logit == row.max())
    assert sampler.pick(row, [1, 2]) == likeliest
    probs = sampler.distribution(row, [])
    assert probs[likeliest] == 1
    assert probs.sum() == 1


def test_greedy_keys_are_the_logits_best_first() -> None:
    ids, keys = Sampler(GREEDY).keys(row_of(1, 5, 5, 2), [])
    assert ids.tolist() == [1, 2, 3, 0]
    assert keys.tolist() == [5, 5, 2, 1]


# --- penalties --------------------------------------------------------------------------------------------------------


def penalised_ids(tokens: Sequence[int], drafted: Sequence[int], window: int) -> set[int]:
    """Return the tokens whose logit a presence penalty lowers."""
    params = SamplingParams(temperature=0, presence_penalty=1.0, penalty_window=window)
    ids, keys = Sampler(params).keys(np.zeros(10, np.float32), tokens, drafted)
    return set(ids[keys < 0].tolist())


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (0, set()),
        (1, {5}),
        (2, {4, 5}),
        (3, {3, 4, 5}),
        (4, {2, 3, 4, 5}),
        (5, {1, 2, 3, 4, 5}),
        (6, {1, 2, 3, 4, 5}),
        (1000, {1, 2, 3, 4, 5}),
        (-1, {1, 2, 3, 4, 5}),
    ],
)
def test_the_window_is_the_end_of_tokens_and_draft_together(window: int, expected: set[int]) -> None:
    for place in range(6):
        text = [1, 2, 3, 4, 5]
        assert penalised_ids(text[:place], text[place:], window) == expected


def test_a_text_without_tokens_has_no_penalties() -> None:
    assert penalised_ids([], [], -1) == set()
    assert penalised_ids([], [], 64) == set()


def test_occurrences_are_counted_inside_the_window_alone() -> None:
    params = SamplingParams(temperature=0, frequency_penalty=1.0, penalty_window=4)
    ids, keys = Sampler(params).keys(np.zeros(4, np.float32), [1, 1, 1, 2], [1, 1])
    assert dict(zip(ids.tolist(), keys.tolist(), strict=True)) == {0: 0, 1: -3, 2: -1, 3: 0}


def test_the_repeat_penalty_makes_every_logit_less_likely() -> None:
    params = SamplingParams(temperature=0, repeat_penalty=2.0)
    ids, keys = Sampler(params).keys(row_of(3, -3, 0, 1), [0, 1, 2])
    assert dict(zip(ids.tolist(), keys.tolist(), strict=True)) == {0: 1.5, 1: -6, 2: 0, 3: 1}


def test_tokens_beyond_the_row_are_ignored() -> None:
    # A draft model may know fewer tokens than the target that wrote the text.
    params = SamplingParams(presence_penalty=1.0)
    assert Sampler(params).distribution(row_of(1, 1), [1, 2, 500], [])[0] > 0.5


# --- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", EVERY_PATH, ids=str)
@pytest.mark.parametrize("size", [20, 3000])
def test_a_row_is_never_changed_nor_kept(params: SamplingParams, size: int) -> None:
    row = np.random.default_rng(1).normal(size=size).astype(np.float32)
    before = row.copy()
    row.flags.writeable = False
    sampler = Sampler(params)
    sampler.pick(row, [1, 2], [3])
    ids, keys = sampler.keys(row, [1, 2], [3])
    probs = sampler.distribution(row, [1, 2], [3])
    assert row.tolist() == before.tolist()
    # The model overwrites its rows at the next decode; what was answered must not change with them.
    row.flags.writeable = True
    kept = ids.tolist(), keys.tolist(), probs.tolist()
    row[:] = 0
    assert (ids.tolist(), keys.tolist(), probs.tolist()) == kept


def spoilt(size: int, place: int, value: float) -> Row:
    row = np.random.default_rng(2).normal(size=size).astype(np.float32)
    row[place] = value
    return row


@pytest.mark.parametrize("params", EVERY_PATH, ids=str)
@pytest.mark.parametrize("ask", ["pick", "keys", "distribution"])
def test_numbers_that_are_none_are_an_error_wherever_they_are(params: SamplingParams, ask: str) -> None:
    # 40 columns of the grid are enough for top-k 40: 2560 tokens.
    rows = [spoilt(size, place, math.nan) for size in (5, 2600, 152_064) for place in (0, size // 2, size - 1)]
    rows += [np.full(size, math.nan, np.float32) for size in (5, 2600)]
    rows += [spoilt(size, size // 2, math.inf) for size in (5, 2600)]
    rows += [np.full(size, -math.inf, np.float32) for size in (5, 2600)]
    for row in rows:
        with pytest.raises(LocalspecError, match="not numbers") as failure:
            getattr(Sampler(params), ask)(row, [1])
        assert failure.value.hint


@pytest.mark.parametrize("params", EVERY_PATH, ids=str)
def test_a_healthy_row_is_no_error(params: SamplingParams) -> None:
    for size in (5, 2600, 152_064):
        Sampler(params).pick(spoilt(size, 0, -math.inf), [1])


# --- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", -0.1),
        ("top_p", 1.01),
        ("top_p", math.nan),
        ("min_p", -0.01),
        ("min_p", 1.5),
        ("min_p", math.nan),
        ("repeat_penalty", 0.0),
        ("repeat_penalty", -1.0),
        ("repeat_penalty", math.nan),
        ("repeat_penalty", math.inf),
        ("frequency_penalty", math.nan),
        ("presence_penalty", math.inf),
        ("penalty_window", -2),
        ("temperature", math.nan),
        ("temperature", math.inf),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_flag_and_value(name: str, value: Any) -> None:
    with pytest.raises(UsageError) as failure:
        SamplingParams(**{name: value})
    assert name.replace("_", "-") in failure.value.title
    assert str(value) in failure.value.title
    assert name.replace("_", "-") in failure.value.hint


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(top_k=0, top_p=1.0, min_p=0.0, penalty_window=0),
        SamplingParams(min_p=1.0, penalty_window=-1, temperature=-1.0),
        SamplingParams(top_k=10**9, top_p=1e-6, repeat_penalty=0.01, seed=2**64 - 1),
        SamplingParams(frequency_penalty=-2.0, presence_penalty=-2.0),
    ],
    ids=str,
)
def test_values_at_the_edge_are_accepted_and_work(params: SamplingParams) -> None:
    assert Sampler(params).pick(row_of(0, 1, 2), [0, 1, 2]) in (0, 1, 2)


def test_what_is_off_is_known_to_be_off() -> None:
    assert not UNTRUNCATED.truncates
    assert not UNTRUNCATED.penalises
    assert not UNTRUNCATED.greedy
    assert not SamplingParams(repeat_penalty=2.0, penalty_window=0).penalises
    for on in (SamplingParams(top_p=1, min_p=0), SamplingParams(top_k=0, min_p=0), SamplingParams(top_k=0, top_p=1)):
        assert on.truncates
    for on in (SamplingParams(repeat_penalty=1.1), SamplingParams(frequency_penalty=0.1)):
        assert on.penalises
    assert SamplingParams(presence_penalty=-0.1).penalises
