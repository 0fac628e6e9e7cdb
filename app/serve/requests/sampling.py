"""Sampling settings and limits of an answer: fields that all protocols share."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.serve.requests.fields import Fields
from models.sampling.sampler import SamplingParams

_MOST_STOPS = 64
_HOTTEST = 100.0
_LEAST_TEMPERATURE = 1e-3
"""Lower temperatures all pick the most likely token, and the lowest overflow."""
_LEAST_TOP_P = 1e-9
_WHOLE = 1 << 31
_SEEDS = 1 << 64
_ANY_SEED = (-1, (1 << 32) - 1)
"""Values that request a new seed: llama.cpp stores -1 in 32 bits without a sign, and clients send that number too."""
_MOST_SAMPLERS = 32
_OFF: Mapping[str, Mapping[str, float]] = {
    "penalties": {"repeat_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0},
    "top_k": {"top_k": 0},
    "top_p": {"top_p": 1.0},
    "min_p": {"min_p": 0.0},
    "temperature": {"temperature": 1.0},
}
"""The neutral value of each sampler."""
_MISSING: Mapping[str, tuple[float, float]] = {
    "mirostat": (-1, 0),
    "dynatemp_range": (-_HOTTEST, 0),
    "xtc_probability": (-_HOTTEST, 0),
    "dry_multiplier": (-_HOTTEST, 0),
    "top_n_sigma": (-_HOTTEST, 0),
    "typical_p": (1, _HOTTEST),
}
"""llama.cpp's samplers that are missing here, each with the range of its neutral values."""


def read_sampling(fields: Fields, defaults: SamplingParams) -> SamplingParams:
    """Read the sampling settings; `defaults` fills in missing ones, the seed is then new.

    Raises Refused, UsageError.
    """
    _refuse_missing(fields)
    given: dict[str, Any] = {name: value for name, value in _given(fields).items() if value is not None}
    params, off = replace(defaults, **given), _switched_off(fields)
    if params.greedy:
        # A request for the most likely text, explicit or by default, keeps that whatever samplers it lists.
        off.pop("temperature", None)
    seed = fields.whole("seed", -_SEEDS, _SEEDS)
    seed = secrets.randbits(32) if seed is None or seed in _ANY_SEED else seed % _SEEDS
    return replace(params, **off, seed=seed)


def read_stops(fields: Fields) -> tuple[str, ...]:
    """Read the texts that end an answer."""
    return tuple(filter(None, fields.texts("stop", _MOST_STOPS)))


def read_count(fields: Fields, *names: str, default: int | None) -> int | None:
    """Read the maximum tokens from the first name that is present; -1 means no limit, here None."""
    counts = [fields.whole(name, -2, _WHOLE) for name in names]
    for count in counts:
        if count is not None:
            return count if count >= 0 else None
    return default


def _refuse_missing(fields: Fields) -> None:
    for name, (low, high) in _MISSING.items():
        value = fields.number(name, -_HOTTEST, _HOTTEST)
        if value is not None and not low <= value <= high:
            fields.refuse(name, "is not supported: this server has no such sampler")


def _given(fields: Fields) -> dict[str, float | int | None]:
    temperature = fields.number("temperature", -_HOTTEST, _HOTTEST)
    top_k = fields.whole("top_k", -_WHOLE, _WHOLE)
    top_p = fields.number("top_p", 0, _HOTTEST)
    min_p = fields.number("min_p", 0, 1)
    return {
        "temperature": temperature if temperature is None or temperature >= _LEAST_TEMPERATURE else 0.0,
        "top_k": None if top_k is None else max(0, top_k),
        "top_p": None if top_p is None else min(1.0, max(top_p, _LEAST_TOP_P)),
        "min_p": min_p,
        "repeat_penalty": fields.number("repeat_penalty", 1e-3, _HOTTEST),
        "penalty_window": fields.whole("repeat_last_n", -1, _WHOLE),
        "frequency_penalty": fields.number("frequency_penalty", -_HOTTEST, _HOTTEST),
        "presence_penalty": fields.number("presence_penalty", -_HOTTEST, _HOTTEST),
    }


def _switched_off(fields: Fields) -> dict[str, Any]:
    """Return neutral settings for the samplers that a request leaves out of its list."""
    # A text with one letter per sampler is another form of the list; it is checked and not followed.
    wanted = fields.texts("samplers", _MOST_SAMPLERS)
    wanted = () if isinstance(fields.raw("samplers"), str) else wanted
    off = {name: values for name, values in _OFF.items() if wanted and name not in wanted}
    return {field: value for values in off.values() for field, value in values.items()}
