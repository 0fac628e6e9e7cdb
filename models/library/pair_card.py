"""Pair cards: small TOML files with a target, its draft model, and measurements of both.

It is data from anywhere: every key, type and bound is checked, nothing in it is a path, and nothing of it is run. What
a machine found best for itself (threads, attention, cache) is there to be read; another machine has its own.
"""

import errno
import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from models.errors import ModelFileError, UsageError
from models.llama.cache_types import CACHE_TYPES
from models.system.bounded_read import UnfitFile, read_regular

_FORMAT = 1
_LARGEST = 1 << 16
"""Bytes of a card; what is larger is none."""
_LONGEST = 300
"""Characters of a text in it."""
_ATTENTION = ("auto", "on", "off")
_HEAD = """\
# Two models for localspec, where the second drafts for the first.
# Settings are those of the machine below; on another one only the pair is used.
"""


@dataclass(frozen=True, slots=True)
class CardModel:
    """One of the two models."""

    name: str
    """A name of another program's, "starter", or the name of the file without its folder."""
    size: int
    fingerprint: str
    """As `models.gguf.fingerprint` gives it."""
    about: str
    """Such as "qwen2 1.78B Q4_K_M"."""


@dataclass(frozen=True, slots=True)
class CardSettings:
    """Fastest settings of a model on the machine that made the card."""

    threads: int
    batch_threads: int
    flash_attention: str
    """Either "auto", "on" or "off"."""
    cache_type_k: str
    cache_type_v: str


@dataclass(frozen=True, slots=True)
class Made:
    """Place and time of a card's making."""

    date: date
    machine: str
    """Processor and cores, in words; no name of a computer."""
    machine_id: str
    """As `models.system.machine.machine_id` gives it."""
    localspec: str
    llama_cpp_python: str


@dataclass(frozen=True, slots=True)
class PairCard:
    """A target and its draft model, and what was found out about them."""

    target: CardModel
    draft: CardModel
    draft_lengths: tuple[int, int]
    """The best draft lengths in tokens for text that is hard to predict, and for text that is easy; 0: none."""
    predicted_speed_up: tuple[float, float]
    """From the worst case to the best, computed from measured passes."""
    made: Made
    target_settings: CardSettings | None = None
    draft_settings: CardSettings | None = None
    measured_speed_up: float | None = None
    """Against plain decoding, as `bench` measured it; None: it was not."""
    measured_prompts: int | None = None
    """Over so many prompts."""


Check = Callable[[Any], str]
"""Says what a value has to be, where it is not; "" where it is."""


def read_card(path: Path) -> PairCard:
    """Read a card; raises ModelFileError where there is none, UsageError for one that can't be used."""
    values = _read(path)
    tables = {key: value for key, value in values.items() if isinstance(value, dict)}
    _check({key: value for key, value in values.items() if key not in tables}, "", path)
    for name, table in tables.items():
        if name not in _KEYS:
            raise _unknown(name, [key for key in _KEYS if key], path)
        _check(table, name, path)
    missing = next((name for name in _NEEDED if name not in values), None)
    if missing is not None:
        raise _wrong(path, f"it has no {missing}", "Make it again with localspec tune.")
    card = _card(values)
    if card.draft_lengths[0] > card.draft_lengths[1]:
        raise _wrong(path, "draft_length.least is more than draft_length.most", "Swap them.")
    return card


def card_text(card: PairCard) -> str:
    """Return a card as TOML."""
    tables: dict[str, Mapping[str, Any]] = {
        "": {
            "format": _FORMAT,
            "predicted_speed_up": [round(speed, 3) for speed in card.predicted_speed_up],
            "measured_speed_up": card.measured_speed_up,
            "measured_prompts": card.measured_prompts,
        },
        "target": _record(card.target),
        "draft": _record(card.draft),
        "draft_length": dict(zip(("least", "most"), card.draft_lengths, strict=True)),
        "target_settings": _record(card.target_settings),
        "draft_settings": _record(card.draft_settings),
        "made": _record(card.made),
    }
    return _HEAD + "\n".join(_table(name, values) for name, values in tables.items() if values)


def _card(values: Mapping[str, Any]) -> PairCard:
    return PairCard(
        CardModel(**values["target"]),
        CardModel(**values["draft"]),
        (values["draft_length"]["least"], values["draft_length"]["most"]),
        (float(values["predicted_speed_up"][0]), float(values["predicted_speed_up"][1])),
        Made(**values["made"]),
        CardSettings(**values["target_settings"]) if "target_settings" in values else None,
        CardSettings(**values["draft_settings"]) if "draft_settings" in values else None,
        values.get("measured_speed_up"),
        values.get("measured_prompts"),
    )


def _record(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__} if value is not None else {}


def _table(name: str, values: Mapping[str, Any]) -> str:
    lines = [f"{key} = {_written(value)}" for key, value in values.items() if value is not None]
    return "\n".join([f"[{name}]"] * bool(name) + lines) + "\n"


def _written(value: Any) -> str:
    # Of what these types can hold, TOML and JSON differ in dates alone.
    return value.isoformat() if isinstance(value, date) else json.dumps(value, ensure_ascii=False)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = read_regular(path, _LARGEST)
    except FileNotFoundError:
        raise ModelFileError(
            f"There is no pair card {path}.", hint="`localspec models pairs` shows those that are here."
        ) from None
    except UnfitFile as error:
        large = error.errno == errno.EFBIG
        cause = f"it is larger than {_LARGEST:,} bytes" if large else str(error.strerror)
        raise _wrong(path, cause, "A card has a few lines.") from error
    except OSError as error:
        raise UsageError(f"{path} can't be read.", cause=str(error), hint="Check its permissions.") from error
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _wrong(path, str(error) or "it is nested too deep", "Make it again with localspec tune.") from error


def _check(values: Mapping[str, Any], table: str, path: Path) -> None:
    """Refuse an unknown key, a missing one, and a value of a wrong type or range."""
    known = _KEYS[table]
    for key, value in values.items():
        if key not in known:
            raise _unknown(key, list(known), path, table)
        if wanted := known[key](value):
            raise _wrong(path, f"{_place(table, key)} is {_shown(value)}", f"It must be {wanted}.")
    missing = [key for key in known if key not in values] if table else []
    if missing:
        raise _wrong(path, f"{_place(table, missing[0])} is missing", "Make it again with localspec tune.")


def _unknown(key: str, known: list[str], path: Path, table: str = "") -> UsageError:
    near = get_close_matches(key, known, n=1)
    hint = f"Did you mean '{near[0]}'?" if near else f"The keys are: {', '.join(known)}."
    return _wrong(path, f"there is no key {_shown(_place(table, key))}", hint)


def _wrong(path: Path, cause: str, hint: str) -> UsageError:
    return UsageError(f"{path} is not a usable pair card.", cause=f"{cause[0].upper()}{cause[1:]}.", hint=hint)


def _place(table: str, key: str) -> str:
    return f"{table}.{key}" if table else key


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."


def _whole(least: int, most: int) -> Check:
    def check(value: Any) -> str:
        fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return "" if fits else f"a whole number from {least:,} to {most:,}"

    return check


def _format(value: Any) -> str:
    return "" if value == _FORMAT and type(value) is int else f"{_FORMAT}; another release of localspec made it"


def _one_of(*words: str) -> Check:
    return lambda value: "" if isinstance(value, str) and value in words else f"one of {', '.join(words)}"


def _text(value: Any) -> str:
    fits = isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()
    return "" if fits else f"a text of up to {_LONGEST} characters that can be shown"


def _digits(count: int) -> Check:
    def check(value: Any) -> str:
        fits = isinstance(value, str) and len(value) == count and set(value) <= set("0123456789abcdef")
        return "" if fits else f"{count} hexadecimal digits"

    return check


def _speed(value: Any) -> str:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 100
    return "" if fits and math.isfinite(value) else "a number of times, such as 1.3"


def _speeds(value: Any) -> str:
    fits = isinstance(value, list) and len(value) == 2 and not any(map(_speed, value))
    return "" if fits else "two numbers of times, such as [1.0, 1.4]"


def _day(value: Any) -> str:
    return "" if type(value) is date else "a day, such as 2026-01-31"


_MODEL: Mapping[str, Check] = {"name": _text, "size": _whole(1, 1 << 50), "fingerprint": _digits(64), "about": _text}
_SETTINGS: Mapping[str, Check] = {
    "threads": _whole(1, 1024),
    "batch_threads": _whole(1, 1024),
    "flash_attention": _one_of(*_ATTENTION),
    "cache_type_k": _one_of(*CACHE_TYPES),
    "cache_type_v": _one_of(*CACHE_TYPES),
}
_KEYS: Mapping[str, Mapping[str, Check]] = {
    "": {
        "format": _format,
        "predicted_speed_up": _speeds,
        "measured_speed_up": _speed,
        "measured_prompts": _whole(1, 1 << 20),
    },
    "target": _MODEL,
    "draft": _MODEL,
    "draft_length": {"least": _whole(0, 64), "most": _whole(0, 64)},
    "target_settings": _SETTINGS,
    "draft_settings": _SETTINGS,
    "made": {
        "date": _day,
        "machine": _text,
        "machine_id": _digits(16),
        "localspec": _text,
        "llama_cpp_python": _text,
    },
}
"""Valid keys of each table; "" is the top level."""
_NEEDED = ("format", "predicted_speed_up", "target", "draft", "draft_length", "made")
