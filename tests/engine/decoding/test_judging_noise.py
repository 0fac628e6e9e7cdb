"""Coins and draws: fair, the same each time, and knowing nothing of each other."""

from collections.abc import Callable
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from binomial import chi_square_tail, fits, misfit
from enumeration import distribution
from numpy.typing import NDArray

from app.engine.decoding import judging_noise as noise_source
from app.engine.decoding.judging_noise import SeededNoise
from models.sampling import noise
from models.sampling.distribution import Distribution, one_hot
from models.sampling.noise import gumbel, stream, uniform
from models.sampling.sampler import Sampler, SamplingParams

SAMPLES = 10_000
SAID = Distribution(np.array([2, 5, 9]), np.array([0.5, 0.3, 0.2]))


# --- uniform numbers --------------------------------------------------------------------------------------------------


@lru_cache
def series(along: str) -> NDArray[np.float64]:
    """Return uniform numbers along seeds, positions, turns or streams, all else being equal."""
    number: dict[str, Callable[[int], float]] = {
        "seeds": lambda n: uniform(n, 5, 0),
        "positions": lambda n: uniform(5, n, 0),
        "turns": lambda n: uniform(5, 7, n),
        "streams": lambda n: uniform(stream(5, n), 7, 0),
        "inner streams": lambda n: uniform(stream(5, 2, n), 7, 0),
    }
    return np.array([number[along](n) for n in range(SAMPLES)])


SERIES = ("seeds", "positions", "turns", "streams", "inner streams")


def evenness(numbers: NDArray[np.float64], cells: int = 64) -> float:
    found = np.bincount((numbers * cells).astype(int), minlength=cells)
    return chi_square_tail(float(((found - len(numbers) / cells) ** 2).sum() / (len(numbers) / cells)), cells - 1)


@pytest.mark.parametrize("along", SERIES)
def test_uniform_numbers_are_spread_evenly_and_from_0_to_1(along: str) -> None:
    numbers = series(along)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert evenness(numbers) > 1e-6
    assert len(np.unique(numbers)) == SAMPLES


@pytest.mark.parametrize("along", SERIES)
def test_one_uniform_number_says_nothing_of_the_next(along: str) -> None:
    numbers = series(along)
    for step in (1, 2, 64):
        correlation = np.corrcoef(numbers[:-step], numbers[step:])[0, 1]
        assert abs(correlation) < 5 / np.sqrt(SAMPLES)
    # In pairs they fill the square evenly.
    square = (numbers[:-1] * 8).astype(int) * 8 + (numbers[1:] * 8).astype(int)
    assert evenness((square[::2] + 0.5) / 64) > 1e-6


def test_numbers_that_are_not_even_are_caught() -> None:
    assert evenness(series("turns") ** 1.1) < 1e-6


@pytest.mark.parametrize("top", [2**64 - 1, 2**64 - 2**10])
def test_a_uniform_number_is_never_1(monkeypatch: pytest.MonkeyPatch, top: int) -> None:
    monkeypatch.setattr(noise, "_hash", lambda *_: np.array([top], np.uint64))
    assert uniform(0, 0, 0) < 1


def test_streams_are_other_seeds() -> None:
    seeds = [
        stream(seed, *labels) for seed in range(50) for labels in ((), (1,), (2,), (1, 0), (1, 1), (2, 0), (1, 1, 0))
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert stream(2**64 + 3, 1) == stream(3, 1)
    assert stream(-1, 1) == stream(2**64 - 1, 1)


def test_the_noise_of_a_stream_says_nothing_of_the_seeds_own() -> None:
    ids = np.arange(SAMPLES)
    own = gumbel(5, 7, ids)
    for other in (stream(5, 1), stream(5, 2), stream(5, 1, 7), stream(5, 1, 8)):
        assert abs(np.corrcoef(own, gumbel(other, 7, ids))[0, 1]) < 5 / np.sqrt(SAMPLES)


# --- coins ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chance", [0.001, 0.3, 0.5, 0.97])
def test_a_coin_comes_up_as_often_as_its_chance_says(chance: float) -> None:
    for place, turn in ((0, 0), (3, 0), (3, 1)):
        hits = sum(SeededNoise(seed, 10).happens(chance, place, turn) for seed in range(4000))
        assert fits(hits, 4000, chance)


def test_what_is_certain_happens_and_what_is_impossible_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (0.0, 0.5, 1 - 2.0**-53):
        monkeypatch.setattr(noise_source, "uniform", lambda *_, number=number: number)
        assert SeededNoise(0, 0).happens(1, 0)
        assert SeededNoise(0, 0).happens(1.0, 0)
        assert not SeededNoise(0, 0).happens(0, 0)
        assert not SeededNoise(0, 0).happens(0.0, 0)


def test_a_round_again_has_the_same_luck() -> None:
    def noise_source(seed: int, start: int) -> list[bool]:
        return [SeededNoise(seed, start).happens(0.5, place, turn) for place in range(40) for turn in (0, 1)]

    assert noise_source(3, 10) == noise_source(3, 10)
    assert noise_source(3, 10) != noise_source(4, 10)
    # The same position, come to by a later round, has another coin.
    assert noise_source(3, 10) != noise_source(3, 11)
    assert noise_source(3, 10)[2:] != noise_source(3, 11)[:-2]


def test_the_coins_of_places_turns_and_rounds_know_nothing_of_each_other() -> None:
    keys = list(product((10, 11), (0, 1), (0, 1)))
    tosses = np.array(
        [[SeededNoise(seed, start).happens(0.5, place, turn) for start, place, turn in keys] for seed in range(4000)]
    )
    together = np.corrcoef(tosses.T.astype(float)) - np.eye(len(keys))
    assert np.abs(together).max() < 5 / np.sqrt(4000)


def test_coins_know_nothing_of_drafts_and_replacements() -> None:
    def facts(seed: int) -> list[float]:
        own = SeededNoise(seed, 1)
        return [own.happens(0.5, 0), gumbel(seed, 1, np.array([0]))[0], gumbel(stream(seed, 1, 1), 1, np.array([0]))[0]]

    found = np.array([facts(seed) for seed in range(4000)]).T
    together = np.corrcoef(found) - np.eye(3)
    assert np.abs(together).max() < 5 / np.sqrt(4000)


# --- draws ------------------------------------------------------------------------------------------------------------


def test_draws_follow_the_distribution() -> None:
    drawn = [SeededNoise(seed, 10).draw(SAID, 1) for seed in range(6000)]
    counts = {token: drawn.count(token) for token in set(drawn)}
    assert misfit(counts, {2: 0.5, 5: 0.3, 9: 0.2}) > 1e-6
    assert misfit(counts, {2: 0.55, 5: 0.25, 9: 0.2}) < 1e-6


def test_a_draw_at_a_position_is_the_same_from_whatever_round_it_is_come_to() -> None:
    for seed in range(50):
        assert SeededNoise(seed, 10).draw(SAID, 3) == SeededNoise(seed, 12).draw(SAID, 1)


def test_what_can_not_come_is_never_drawn() -> None:
    said = Distribution(np.array([1, 2, 3]), np.array([0.0, 1.0, 0.0]))
    assert {SeededNoise(seed, 0).draw(said, 0) for seed in range(200)} == {2}
    assert SeededNoise(0, 0).draw(one_hot(4), 0) == 4


def test_a_draw_from_the_whole_target_is_the_plain_token() -> None:
    row = np.random.default_rng(1).normal(size=12).astype(np.float32)
    for seed in range(100):
        sampler = Sampler(SamplingParams(temperature=0.9, top_k=8, seed=seed))
        drawn = SeededNoise(seed, 2).draw(sampler.served(row, (1, 2), (3,)), 1)
        assert drawn == sampler.pick(row, (1, 2), (3,))


def test_fractions_can_be_tossed() -> None:
    said = distribution(1, 2, 3)
    tosses = [SeededNoise(seed, 0).happens(said.of(1), 0) for seed in range(50)]
    assert tosses == [SeededNoise(seed, 0).happens(1 / 3, 0) for seed in range(50)]
    assert 5 < sum(tosses) < 30
