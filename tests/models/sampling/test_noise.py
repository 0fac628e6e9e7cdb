"""The noise is a pure function of (seed, position, id), and it is Gumbel noise.

Nothing here is drawn anew from run to run, so a test that passes goes on passing; the odds that are stated say how
unlikely it was that right code failed it.
"""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from checking import FIXED, ONCE, caught
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.sampling.noise import _gumbel_of, _hash, _mix, gumbel, strongest_gumbel

Noise = Callable[[int, int, NDArray[np.int64]], NDArray[np.float64]]
Samples = NDArray[np.float64]

SEEDS = st.integers(0, 2**64 - 1)
POSITIONS = st.integers(0, 200_000)
IDS = st.integers(0, 300_000)
MASK = 2**64 - 1


def noise_of(noise: Noise, seed: int, position: int, token: int) -> float:
    return float(noise(seed, position, np.array([token]))[0])


# --- a pure function of three numbers ---------------------------------------------------------------------------------


def check_shape_and_order_are_ignored(noise: Noise, how: settings) -> None:
    @how
    @given(SEEDS, POSITIONS, st.lists(IDS, min_size=1, max_size=40), st.randoms(use_true_random=False))
    def holds(seed: int, position: int, ids: list[int], random: Random) -> None:
        alone = [noise_of(noise, seed, position, token) for token in ids]
        assert noise(seed, position, np.array(ids)).tolist() == alone
        assert noise(seed, position, np.array([ids, ids])).tolist() == [alone, alone]
        assert noise(seed, position, np.repeat(ids, 3)[::3]).tolist() == alone
        order = list(range(len(ids)))
        random.shuffle(order)
        assert noise(seed, position, np.array(ids)[order]).tolist() == [alone[i] for i in order]

    holds()


def test_noise_depends_neither_on_the_shape_nor_on_the_order_of_the_ids() -> None:
    check_shape_and_order_are_ignored(gumbel, FIXED)


def test_noise_that_is_drawn_in_the_order_of_the_ids_is_caught() -> None:
    def drawn(seed: int, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.random.default_rng([seed, position]).gumbel(size=ids.shape)

    with caught():
        check_shape_and_order_are_ignored(drawn, ONCE)


def test_noise_in_a_whole_vocabulary_is_the_noise_alone() -> None:
    whole = gumbel(7, 11, np.arange(152_064))
    for token in (0, 1, 7, 8, 63, 64, 1000, 151_999, 152_063):
        assert whole[token] == noise_of(gumbel, 7, 11, token)


def test_the_ids_asked_for_are_left_as_they_are() -> None:
    ids = np.arange(100)
    first = gumbel(1, 2, ids)
    assert ids.tolist() == list(range(100))
    assert gumbel(1, 2, ids).tolist() == first.tolist()


def check_all_three_numbers_count(noise: Noise, how: settings) -> None:
    @how
    @given(SEEDS, POSITIONS, IDS, st.integers(1, 2**20), st.integers(0, 63))
    def holds(seed: int, position: int, token: int, step: int, bit: int) -> None:
        here = noise_of(noise, seed, position, token)
        assert noise_of(noise, seed ^ (1 << bit), position, token) != here
        assert noise_of(noise, seed, position + step, token) != here
        assert noise_of(noise, seed, position, token + step) != here
        # Numbers that are merely added up would meet again on the diagonals.
        assert noise_of(noise, seed, position + step, token) != noise_of(noise, seed, position, token + step)
        assert noise_of(noise, (seed + step) % 2**64, position, token) != noise_of(noise, seed, position + step, token)

    holds()


def test_noise_differs_when_seed_position_or_id_does() -> None:
    check_all_three_numbers_count(gumbel, FIXED)


@pytest.mark.parametrize(
    "broken",
    [
        lambda seed, position, ids: gumbel(0, position, ids),  # noqa: ARG005
        lambda seed, position, ids: gumbel(seed, 0, ids),  # noqa: ARG005
        lambda seed, position, ids: gumbel(seed, position, ids * 0),
        lambda seed, position, ids: gumbel((seed + position) % 2**64, 0, ids),
        lambda seed, position, ids: gumbel(seed, 0, ids + position),
        lambda seed, position, ids: gumbel(seed % 2**32, position, ids),
    ],
    ids=["seed ignored", "position ignored", "id ignored", "seed + position", "position + id", "short seed"],
)
def test_noise_that_loses_a_number_is_caught(broken: Noise) -> None:
    with caught():
        check_all_three_numbers_count(broken, ONCE)


def test_a_seed_counts_modulo_64_bits() -> None:
    assert noise_of(gumbel, -1, 3, 5) == noise_of(gumbel, 2**64 - 1, 3, 5)
    assert noise_of(gumbel, 2**64 + 9, 3, 5) == noise_of(gumbel, 9, 3, 5)


def splitmix(state: int) -> int:
    """SplitMix64's output function, from the paper, in Python's integers."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def test_mix_is_the_published_splitmix64() -> None:
    # The first outputs of the generator seeded with 0 and with 1234567, as other implementations print them.
    assert _mix(0) == 0xE220A8397B1DCDAF
    assert _mix(1234567) == 6457827717110365317


@FIXED
@given(SEEDS, POSITIONS, st.lists(IDS, min_size=1, max_size=20))
def test_hashes_are_a_splitmix64_stream_a_position(seed: int, position: int, ids: list[int]) -> None:
    golden = 0x9E3779B97F4A7C15
    stream = splitmix((splitmix((seed + golden) & MASK) + position * golden + golden) & MASK)
    expected = [splitmix((stream + (token + 1) * golden) & MASK) for token in ids]
    assert _hash(seed, position, np.array(ids)).tolist() == expected


# --- Gumbel's distribution --------------------------------------------------------------------------------------------

SAMPLES = 200_000


def along_ids(noise: Noise) -> Samples:
    return noise(5, 17, np.arange(SAMPLES))


def along_positions(noise: Noise) -> Samples:
    return np.array([noise_of(noise, 5, position, 17) for position in range(SAMPLES // 10)])


def along_seeds(noise: Noise) -> Samples:
    return np.array([noise_of(noise, seed, 5, 17) for seed in range(SAMPLES // 10)])


def kolmogorov_smirnov(samples: Samples) -> float:
    """Return sqrt(n) times the largest distance between the samples' and Gumbel's cumulative distribution."""
    ordered = np.exp(-np.exp(-np.sort(samples)))
    n = len(ordered)
    steps = np.arange(n + 1) / n
    return float(np.sqrt(n) * max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))


TOO_FAR = 2.8
"""Right noise is farther off with odds 2 exp(-2 * 2.8**2) = 3e-7."""


@pytest.mark.parametrize("along", [along_ids, along_positions, along_seeds])
def test_noise_is_standard_gumbel(along: Callable[[Noise], Samples]) -> None:
    assert kolmogorov_smirnov(along(gumbel)) < TOO_FAR


@pytest.mark.parametrize(
    "broken",
    [
        lambda seed, position, ids: 1.05 * gumbel(seed, position, ids),
        lambda seed, position, ids: gumbel(seed, position, ids) + 0.03,
        lambda seed, position, ids: -gumbel(seed, position, ids) + 2 * 0.5772,
    ],
    ids=["too wide", "shifted", "upside down"],
)
def test_noise_that_is_not_quite_gumbel_is_caught(broken: Noise) -> None:
    assert kolmogorov_smirnov(along_ids(broken)) > TOO_FAR


def tail_count(noise: Noise) -> int:
    """Count values above 10 among four million: winners come from there. Gumbel has 4e6 * 4.54e-5 = 181.6 of them."""
    return sum(int((noise(1, position, np.arange(200_000)) > 10).sum()) for position in range(20))


def test_the_upper_tail_holds_as_many_as_it_should() -> None:
    # Five standard deviations of a Poisson count: odds of 1e-6.
    assert abs(tail_count(gumbel) - 181.6) < 5 * np.sqrt(181.6)


def test_a_tail_cut_short_is_caught() -> None:
    # Uniform noise of 14 bits reaches no farther than -log(-log(1 - 2**-14)) = 9.7.
    def coarse(seed: int, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        uniform = np.floor(np.exp(-np.exp(-gumbel(seed, position, ids))) * 2**14) / 2**14
        return np.asarray(-np.log(-np.log(uniform)))

    with np.errstate(divide="ignore"):
        assert abs(tail_count(coarse) - 181.6) > 5 * np.sqrt(181.6)


def correlations(noise: Noise) -> list[float]:
    """Return the correlation of a stretch of noise with its neighbours in each direction."""
    ids = np.arange(SAMPLES)
    here = noise(9, 40, ids)
    neighbours = [
        noise(10, 40, ids),
        noise(9, 41, ids),
        noise(9, 40, ids + 1),
        noise(9, 41, ids + 1),
        noise(41, 8, ids),
    ]
    return [float(np.corrcoef(here, there)[0, 1]) for there in neighbours]


NOT_INDEPENDENT = 5 / np.sqrt(SAMPLES)
"""Five standard deviations of the correlation of independent samples: odds of 6e-7 each."""


def test_neighbouring_seeds_positions_and_ids_are_uncorrelated() -> None:
    assert max(map(abs, correlations(gumbel))) < NOT_INDEPENDENT


def test_correlated_positions_are_caught() -> None:
    def smeared(seed: int, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        return gumbel(seed, position, ids) + 0.05 * gumbel(seed, position + 1, ids)

    assert max(map(abs, correlations(smeared))) > NOT_INDEPENDENT


# --- extremes ---------------------------------------------------------------------------------------------------------

EXTREMES = np.array([0, 1, 2, 2**63, 2**64 - 2**11, 2**64 - 2, 2**64 - 1], np.uint64)


def test_the_noise_of_every_hash_is_finite() -> None:
    assert np.isfinite(_gumbel_of(EXTREMES)).all()
    # Half a step from 0, and one step of a float from 1.
    assert _gumbel_of(EXTREMES[:1])[0] == pytest.approx(65 * np.log(2))
    assert _gumbel_of(EXTREMES[-1:])[0] == pytest.approx(-np.log(53 * np.log(2)))


def test_the_textbook_formula_is_not_finite_at_the_extremes() -> None:
    with np.errstate(divide="ignore"):
        textbook = -np.log(-np.log(EXTREMES.astype(np.float64) * 2.0**-64))
    assert not np.isfinite(textbook).all()


@FIXED
@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 2**12) | st.integers(2**64 - 2**12, 2**64 - 1), min_size=2))
def test_a_smaller_hash_never_gives_smaller_noise(hashes: list[int]) -> None:
    noise = _gumbel_of(np.array(sorted(hashes), np.uint64))
    assert (np.diff(noise) <= 0).all()


# --- the strongest noise ----------------------------------------------------------------------------------------------


def check_strongest(strongest: Callable[[int, int, int], float], how: settings) -> None:
    @how
    @given(SEEDS, POSITIONS, st.integers(1, 12) | st.sampled_from([400, 32_000, 151_936]))
    def holds(seed: int, position: int, size: int) -> None:
        assert strongest(seed, position, size) == gumbel(seed, position, np.arange(size)).max()

    holds()


def test_the_strongest_noise_is_the_largest_of_all() -> None:
    check_strongest(strongest_gumbel, FIXED)


@pytest.mark.parametrize(
    "broken",
    [
        lambda seed, position, size: strongest_gumbel(seed, position, max(1, size - 1)),
        lambda seed, position, size: strongest_gumbel(seed, position, size + 1),
        lambda seed, position, size: strongest_gumbel(seed, position + 1, size),
    ],
    ids=["last id forgotten", "one id too many", "another position"],
)
def test_a_strongest_noise_of_other_ids_is_caught(broken: Callable[[int, int, int], float]) -> None:
    with caught():
        check_strongest(broken, ONCE)


def test_asking_for_the_strongest_noise_twice_gives_the_same() -> None:
    first = strongest_gumbel(3, 4, 1000)
    assert strongest_gumbel(3, 5, 1000) != first
    assert strongest_gumbel(3, 4, 1000) == first
