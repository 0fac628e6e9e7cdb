"""Greedy, penalties, rows that are no numbers, parameters that make no sense."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from checking import FIXED
from hypothesis import given
from hypothesis import strategies as st
from sampling_reference import EVERY_PATH, GREEDY, ROWS, UNTRUNCATED, Row, probabilities, row_of

from models.errors import LocalspecError, UsageError
from models.sampling.sampler import Sampler, SamplingParams

# --- greedy -----------------------------------------------------------------------------------------------------------


@FIXED
@given(ROWS, st.sampled_from([0.0, -1.0]), st.integers(0, 9))
def test_temperature_0_is_certain_of_the_lowest_id_among_the_likeliest(row: Row, temperature: float, seed: int) -> None:
    sampler = Sampler(SamplingParams(temperature=temperature, seed=seed))
    likeliest = min(token for token, logit in enumerate(row) if logit == row.max())
    assert sampler.pick(row, [1, 2]) == likeliest
    probs = probabilities(sampler, row, [])
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
    assert probabilities(Sampler(params), row_of(1, 1), [1, 2, 500], [])[0] > 0.5


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
    probs = probabilities(sampler, row, [1, 2], [3])
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
@pytest.mark.parametrize("ask", ["pick", "keys", "served"])
def test_numbers_that_are_none_are_an_error_wherever_they_are(params: SamplingParams, ask: str) -> None:
    # 40 columns of the grid are enough for top-k 40: 2560 tokens.
    rows = [spoilt(size, place, math.nan) for size in (5, 2600, 152_064) for place in (0, size // 2, size - 1)]
    rows += [np.full(size, math.nan, np.float32) for size in (5, 2600)]
    rows += [spoilt(size, size // 2, math.inf) for size in (5, 2600)]
    rows += [np.full(size, -math.inf, np.float32) for size in (5, 2600)]
    for row in rows:
        with pytest.raises(LocalspecError, match="instead of numbers") as failure:
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
        ("repeat_penalty", 1e-300),
        ("frequency_penalty", 1e308),
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
    flag = "repeat-last-n" if name == "penalty_window" else name.replace("_", "-")
    assert failure.value.title == f"{flag} is {value}"
    assert flag in failure.value.hint


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(top_k=0, top_p=1.0, min_p=0.0, penalty_window=0),
        SamplingParams(min_p=1.0, penalty_window=-1, temperature=-1.0),
        SamplingParams(top_k=10**9, top_p=1e-6, repeat_penalty=0.01, seed=2**64 - 1),
        SamplingParams(frequency_penalty=-2.0, presence_penalty=-2.0),
        SamplingParams(frequency_penalty=1e3, presence_penalty=-1e3, repeat_penalty=1e-3),
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
