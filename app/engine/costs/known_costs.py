"""Costs of a model that earlier runs and `tune` measured on this machine, read without loading the engine.

The records are those of `app.engine.runtime.machine_measurements` and `app.engine.costs.tuned`, found by the end of
their keys, which names file, build and machine; a record that is damaged is not found.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.engine.costs.measurement_key import VARIANT, ModelRun, Quantity, parse_key
from app.engine.costs.usable_width import usable_width
from models.llama.probe import identity
from models.system.bounded_read import read_json
from models.system.machine import physical_cores

_LONGEST = 3600.0
"""Seconds that a pass can take."""
TUNED_KEY = "tuned 2, "
"""Beginning of the keys of tuned records; the number changes when their meaning does."""
_TUNED = re.compile(rf"{TUNED_KEY}(target|draft), (\d+)")


@dataclass(frozen=True, slots=True)
class KnownCosts:
    """Seconds of one model's passes, measured on this machine."""

    seconds: Mapping[int, float]
    """T(w): seconds by width; width 1 is always there."""
    exact_width: int | None
    """Widest pass that equals one-token passes to the last bit; None: not known."""

    @property
    def one_token(self) -> float:
        """Seconds of a one-token pass."""
        return self.seconds[1]

    @property
    def verify(self) -> dict[int, float]:
        """T(w) / T(1) of the widths that drafts may use."""
        widest = usable_width(self.exact_width, max(self.seconds))
        return {width: taken / self.one_token for width, taken in self.seconds.items() if width <= widest}


def known_target(memory: Path, path: Path) -> KnownCosts | None:
    """Return the stored costs of a target from the file `memory`, wider passes included; None without a record."""
    return _quickest(known for known in _known(memory, path) if len(known.seconds) > 1)


def known_draft(memory: Path, path: Path) -> KnownCosts | None:
    """Return the stored cost of a draft model's steps from the file `memory`; None without a record."""
    return _quickest(_known(memory, path))


def _quickest(found: Iterable[KnownCosts]) -> KnownCosts | None:
    """Return the fastest measurement: another program can only have slowed one down."""
    return min(found, key=lambda known: known.one_token, default=None)


def _known(memory: Path, path: Path) -> list[KnownCosts]:
    records = _records(memory)
    if not any(_has_curve(key) for key in records):
        return []
    engine = find_spec("llama_cpp")
    if engine is None or engine.origin is None:
        return []
    # The engine is found without importing it, which would take longer than reading both headers of a pair.
    end = identity(path, Path(engine.origin).parent / "lib")
    mine = {key: value for key, value in records.items() if key.endswith(end)}
    usual = {key: value for key, value in mine.items() if _is_usual(key)}
    return list(_measured(usual)) or list(_measured(mine))


def _has_curve(key: str) -> bool:
    """Tell whether a record can have seconds of passes."""
    parsed = parse_key(key)
    return bool(_TUNED.match(key)) or (parsed is not None and parsed.quantity is Quantity.CURVE)


def _is_usual(key: str) -> bool:
    """Tell whether a record is for the present number of cores, and without flags that change the exact width."""
    if (tuned := _TUNED.match(key)) is not None:
        is_file_itself = f", {VARIANT} " not in key
        return is_file_itself and key.startswith(f"{tuned[0]} cores, ") and int(tuned[2]) == physical_cores()
    parsed = parse_key(key)
    if parsed is None or parsed.run.cores != physical_cores():
        return False
    return parsed.run.setting("flash_attention") != "False" and parsed.run.setting(VARIANT) is None


def _measured(records: Mapping[str, Any]) -> Iterator[KnownCosts]:
    exact = _exact_widths(records)
    # A file loaded as a draft model has a curve under settings whose exact width was never measured.
    narrowest = min(exact.values(), default=None)
    for key, value in records.items():
        parsed = parse_key(key)
        if parsed is not None and parsed.quantity is Quantity.CURVE:
            seconds, width = _seconds(value), exact.get(parsed.run, narrowest)
        elif (found := _TUNED.match(key)) and isinstance(value, dict):
            seconds, width = _of_tuned(found[1], value), value.get("exact_width")
        else:
            continue
        if 1 in seconds:
            yield KnownCosts(seconds, width if _is_width(width) else None)


def _exact_widths(records: Mapping[str, Any]) -> dict[ModelRun, int]:
    found = ((parse_key(key), value) for key, value in records.items())
    return {key.run: value for key, value in found if key and key.quantity is Quantity.EXACT_WIDTH and _is_width(value)}


def _of_tuned(role: str, record: Mapping[str, Any]) -> dict[int, float]:
    """Return the curve of a target; for a draft model the cost of a step in a short context."""
    if role == "target":
        return _seconds(record.get("verify"))
    steps, copy = _seconds(record.get("one_token")), record.get("copy")
    if isinstance(copy, str) and not Path(copy).is_file():
        # The copy was deleted since, so the model itself drafts, which takes longer.
        return {}
    return {1: steps[min(steps)]} if steps else {}


def _records(memory: Path) -> dict[str, Any]:
    try:
        known = read_json(memory)
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _seconds(value: Any) -> dict[int, float]:
    if not isinstance(value, dict):
        return {}
    return {int(key): float(taken) for key, taken in value.items() if key.isdecimal() and _is_time(taken)}


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LONGEST


def _is_width(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
