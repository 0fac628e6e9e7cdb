"""The served distribution is the one of llama.cpp's own sampler chain, candidate by candidate."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from checking import caught
from numpy.typing import NDArray
from sampling_reference import probabilities

from models.llama.bindings import llama_cpp
from models.sampling.sampler import Sampler, SamplingParams

Row = NDArray[np.float32]
Served = dict[int, float]
"""What is left of the vocabulary: token to probability."""
CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
UNTRUNCATED = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
ORDER = ("penalties", "top_k", "top_p", "min_p", "temp")


def stage(name: str, params: SamplingParams, size: int, history: Sequence[int]) -> Any:
    api = llama_cpp()
    window = len(history) if params.penalty_window < 0 else params.penalty_window
    makers: dict[str, Callable[[], Any]] = {
        "penalties": lambda: api.llama_sampler_init_penalties(
            size, window, params.repeat_penalty, params.frequency_penalty, params.presence_penalty
        ),
        "top_k": lambda: api.llama_sampler_init_top_k(params.top_k),
        "top_p": lambda: api.llama_sampler_init_top_p(params.top_p, 1),
        "min_p": lambda: api.llama_sampler_init_min_p(params.min_p, 1),
        "temp": lambda: api.llama_sampler_init_temp(params.temperature),
    }
    return makers[name]()


def by_llama_cpp(params: SamplingParams, row: Row, history: Sequence[int], order: Sequence[str] = ORDER) -> Served:
    """Run llama.cpp's chain over a row."""
    api = llama_cpp()
    chain = api.llama_sampler_chain_init(api.llama_sampler_chain_default_params())
    for name in order:
        api.llama_sampler_chain_add(chain, stage(name, params, len(row), history))
    # The last stage turns what is left into probabilities.
    api.llama_sampler_chain_add(chain, api.llama_sampler_init_dist(0))
    for token in history:
        api.llama_sampler_accept(chain, token)
    candidates = np.zeros(len(row), CANDIDATE)
    candidates["id"] = np.arange(len(row))
    candidates["logit"] = row
    array = api.llama_token_data_array(
        data=ctypes.cast(candidates.ctypes.data, api.llama_token_data_p), size=len(row), selected=-1, sorted=False
    )
    api.llama_sampler_apply(chain, ctypes.byref(array))
    probs: Served = {array.data[i].id: array.data[i].p for i in range(array.size) if array.data[i].p > 0}
    api.llama_sampler_free(chain)
    return probs


def by_localspec(params: SamplingParams, row: Row, history: Sequence[int]) -> Served:
    probs = probabilities(Sampler(params), row, history)
    return {int(token): float(probs[token]) for token in np.flatnonzero(probs)}


PARAMS = {
    "defaults": SamplingParams(),
    "top-k": replace(UNTRUNCATED, top_k=7, temperature=0.7),
    "top-k, 1": SamplingParams(top_k=1),
    "top-k beyond the vocabulary": SamplingParams(top_k=10_000, top_p=0.9),
    "narrow": SamplingParams(top_k=30, top_p=0.5, min_p=0.2, temperature=1.3),
    "hot": SamplingParams(top_k=100, top_p=0.99, min_p=0.0, temperature=2.5),
    "cold": SamplingParams(temperature=0.1, min_p=0.0),
    "min-p alone": replace(UNTRUNCATED, min_p=0.03, temperature=1.2),
    "temperature alone": replace(UNTRUNCATED, temperature=0.6),
    "greedy": SamplingParams(temperature=0.0),
    "repeat": SamplingParams(repeat_penalty=1.4, temperature=1.2),
    "all penalties": SamplingParams(repeat_penalty=1.2, frequency_penalty=0.3, presence_penalty=0.4, top_p=1.0),
    "rewards": SamplingParams(repeat_penalty=0.8, frequency_penalty=-0.2, presence_penalty=-0.1),
    "short window": SamplingParams(repeat_penalty=1.5, penalty_window=5, top_k=20),
    "no window": SamplingParams(repeat_penalty=1.5, penalty_window=0),
    "whole window": SamplingParams(frequency_penalty=0.5, penalty_window=-1),
}


def cases(rounds: int) -> list[tuple[Row, list[int]]]:
    """Return rows as models make them, and texts in which their likely tokens occur."""
    rng = np.random.default_rng(0)
    made = []
    for i in range(rounds):
        size = (8, 274, 3000, 32_000)[i % 4]
        row = (rng.choice([1.0, 3.0, 6.0]) * rng.normal(size=size)).astype(np.float32)
        likely = np.argsort(-row)[:12]
        made.append((row, [int(token) for token in rng.choice(likely, size=rng.integers(0, 90))]))
    return made


def check(chain: Callable[[SamplingParams, Row, Sequence[int]], Served], params: SamplingParams) -> None:
    for row, history in cases(24):
        own, other = by_localspec(params, row, history), chain(params, row, history)
        # Without any cut the far tail underflows in llama.cpp's single precision.
        assert {token for token, prob in own.items() if prob > 1e-30} <= set(other) <= set(own)
        assert max(abs(own[token] - prob) for token, prob in other.items()) < 1e-5


@pytest.mark.parametrize("name", list(PARAMS))
def test_the_distribution_is_llama_cpps(name: str) -> None:
    check(by_llama_cpp, PARAMS[name])


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("defaults", ("penalties", "temp", "top_k", "top_p", "min_p")),
        ("narrow", ("penalties", "top_k", "min_p", "top_p", "temp")),
        ("defaults", ("penalties", "top_k", "top_p", "temp")),
        ("all penalties", ("top_k", "top_p", "min_p", "temp", "penalties")),
        ("repeat", ("top_k", "top_p", "min_p", "temp")),
    ],
)
def test_a_chain_in_another_order_is_told_apart(name: str, order: Sequence[str]) -> None:
    with caught():
        check(lambda params, row, history: by_llama_cpp(params, row, history, order), PARAMS[name])


def test_a_penalty_window_one_off_is_told_apart() -> None:
    def one_more(params: SamplingParams, row: Row, history: Sequence[int]) -> Served:
        return by_llama_cpp(replace(params, penalty_window=params.penalty_window + 1), row, history)

    with caught():
        check(one_more, PARAMS["short window"])


def test_a_draft_counts_as_text_for_the_penalties() -> None:
    params = PARAMS["short window"]
    for row, history in cases(24):
        place = len(history) * 2 // 3
        probs = probabilities(Sampler(params), row, history[:place], history[place:])
        expected = by_llama_cpp(params, row, history)
        assert max(abs(probs[token] - prob) for token, prob in expected.items()) < 1e-5


@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.95])
def test_top_p_of_a_whole_small_vocabulary_is_llama_cpps(top_p: float) -> None:
    params = replace(UNTRUNCATED, top_p=top_p)
    for row, history in cases(24):
        if len(row) < 1000:
            own, other = by_localspec(params, row, history), by_llama_cpp(params, row, history)
            assert set(own) == set(other)
            assert max(abs(own[token] - prob) for token, prob in other.items()) < 1e-5
