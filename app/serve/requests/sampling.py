"""Sampling settings and limits of an answer: fields that all protocols share."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.serve.requests.fields import Fields, whole_characters
from models.base import Vocab
from models.sampling.dry import BREAKERS, Dry, breaker_tokens
from models.sampling.sampler import BANNED, SamplingParams

_MOST_STOPS = 64
_BIAS = "logit_bias"
_NO_BIAS: tuple[object, ...] = (False, "", [], {})
_MOST_BIASES, _LONGEST_BIASED, _LONGEST_ID = 1024, 64, 12
"""Maximum entries, characters of a text in one, and digits of an id."""
_MOST_BIAS = 1000
_MOST_BREAKERS = 64
_HOTTEST = 100.0
_LEAST_TEMPERATURE = 1e-3
"""Lower temperatures all pick the most likely token, and the lowest overflow."""
_LEAST_TOP_P = 1e-9
_WHOLE = 1 << 31
_SEEDS = 1 << 64
_ANY_SEED = (-1, (1 << 32) - 1)
"""Values that request a new seed: llama.cpp stores -1 in 32 bits without a sign, and clients send that number too."""
_MOST_SAMPLERS = 32
_OFF: Mapping[str, Mapping[str, float | None]] = {
    "dry": {"dry": None},
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
    "top_n_sigma": (-_HOTTEST, 0),
    "typical_p": (1, _HOTTEST),
}
"""llama.cpp's samplers that are missing here, each with the range of its neutral values."""


def read_sampling(fields: Fields, defaults: SamplingParams, vocab: Vocab) -> SamplingParams:
    """Read the sampling settings; `defaults` fills in missing ones, the seed is then new. `vocab` is the target's.

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
    return replace(params, **{"dry": _dry(fields, vocab), **off}, seed=seed, bias=_bias(fields, vocab))


def _dry(fields: Fields, vocab: Vocab) -> Dry | None:
    """Read the penalty on repetitions; None where it is off."""
    multiplier = fields.number("dry_multiplier", -_HOTTEST, _HOTTEST)
    base, length = fields.number("dry_base", 0, _HOTTEST), fields.whole("dry_allowed_length", 0, _WHOLE)
    window, texts = fields.whole("dry_penalty_last_n", -1, _WHOLE), _breakers(fields)
    if multiplier is None or multiplier <= 0 or (base is not None and base < 1) or window == 0:
        # As in llama.cpp, a base below 1 switches it off too.
        return None
    given = {"base": base, "allowed_length": None if length is None else max(1, length), "window": window}
    wanted: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return Dry(multiplier, **wanted, breakers=breaker_tokens(vocab, texts))


def _breakers(fields: Fields) -> tuple[str, ...]:
    """Read the texts that end a repetition: a list, or its items as one text, as text-generation-webui has it."""
    name = "dry_sequence_breakers"
    given = fields.raw(name)
    if isinstance(given, str):
        try:
            given = json.loads(given if given.lstrip().startswith("[") else f"[{given}]")
        except ValueError:
            fields.refuse(name, "must be a list of texts")
        return fields.within({name: given}, "").texts(name, _MOST_BREAKERS)
    return fields.texts(name, _MOST_BREAKERS) if fields.has(name) else BREAKERS


def _bias(fields: Fields, vocab: Vocab) -> tuple[tuple[int, float], ...]:
    """Read the biases of tokens: an object as OpenAI has it, or pairs as llama.cpp has them; false bans a token."""
    given = fields.raw(_BIAS)
    if given is None or given in _NO_BIAS:
        return ()
    pairs = [*given.items()] if isinstance(given, dict) else given
    if not isinstance(pairs, list) or len(pairs) > _MOST_BIASES:
        fields.refuse(_BIAS, f"must be an object, or a list of pairs, of at most {_MOST_BIASES} tokens and numbers")
    found: dict[int, float] = {}
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            fields.refuse(_BIAS, "must have pairs of a token and a number")
        value = _bias_value(fields, pair[1])
        for token in _biased_tokens(fields, pair[0], vocab):
            found[token] = max(BANNED, found.get(token, 0.0) + value)
    return tuple(found.items())


def _bias_value(fields: Fields, value: object) -> float:
    if value is False:
        return BANNED
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST_BIAS:
        fields.refuse(_BIAS, f"must have numbers from -{_MOST_BIAS} to {_MOST_BIAS}, or false for a ban")
    return float(value)


def _biased_tokens(fields: Fields, token: object, vocab: Vocab) -> Sequence[int]:
    """Return the ids that one entry is about: an id, also as text, or the tokens of another text."""
    if isinstance(token, str) and token.isascii() and token.isdigit() and len(token) <= _LONGEST_ID:
        token = int(token)
    if isinstance(token, str) and len(token) <= _LONGEST_BIASED:
        # The spelling of a control token is that token: clients ban such by name.
        return vocab.tokenize(whole_characters(token))
    if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab.size:
        fields.refuse(_BIAS, f"must have token ids from 0 to {vocab.size - 1}, or short texts")
    return (token,)


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
