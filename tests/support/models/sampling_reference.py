"""An independent, slow and obviously right version of the served distribution, and rows to try it on."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.sampling.sampler import Sampler, SamplingParams

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


def probabilities(sampler: Sampler, row: Row, tokens: Sequence[int], drafted: Sequence[int] = ()) -> Probs:
    """Return what the sampler serves, over the whole vocabulary."""
    return sampler.served(row, tokens, drafted).at(np.arange(len(row))).astype(np.float64)


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
