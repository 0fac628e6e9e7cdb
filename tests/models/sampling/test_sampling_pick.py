"""A pick is the best of scores and noise, follows the distribution, and depends on seed and position alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from checking import FIXED, caught
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sampling_reference import (
    HISTORIES,
    PARAMS,
    ROWS,
    TRUNCATIONS,
    UNTRUNCATED,
    CloseCall,
    Row,
    probabilities,
    reference,
    row_of,
)

import models.sampling.sampler
from models.sampling.noise import gumbel, strongest_gumbel
from models.sampling.sampler import Sampler, SamplingParams

# --- picking ----------------------------------------------------------------------------------------------------------


@FIXED
@given(PARAMS, ROWS, HISTORIES, HISTORIES)
def test_pick_is_the_first_of_the_keys(params: SamplingParams, row: Row, tokens: list[int], drafted: list[int]) -> None:
    sampler = Sampler(params)
    ids, keys = sampler.keys(row, tokens, drafted)
    assert sampler.pick(row, tokens, drafted) == ids[0]
    assert len(set(ids.tolist())) == len(ids) == len(keys)
    assert all(better >= worse for better, worse in pairwise(keys))
    kept = np.flatnonzero(probabilities(sampler, row, tokens, drafted))
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
    # Where nothing is cut off, the reference keeps what a form forbids, with chance 0.
    assert set(ids.tolist()) == {token for token in expected if row[token] > -np.inf}
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
    assert probabilities(sampler, row, tokens, drafted).tolist() == probabilities(sampler, row, history).tolist()
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
    monkeypatch.setattr(models.sampling.sampler, "strongest_gumbel", lambda *where: strongest_gumbel(*where) - 1.0)
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
    return chi_square(counts, PICKS * probabilities(sampler, LUMPY, [], drafted))


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
    monkeypatch.setattr(models.sampling.sampler, "gumbel", broken)
    monkeypatch.setattr(
        models.sampling.sampler, "strongest_gumbel", lambda *where: max(broken(*where[:2], np.arange(8)))
    )
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
