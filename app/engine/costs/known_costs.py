"""Costs of a model that earlier runs and `tune` measured on this machine, read without loading the engine.

The records are those of `app.engine.runtime.load` and `app.engine.costs.tuned`, found by the end of their keys, which
names file, build and machine. Damaged records are skipped.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.engine.costs.usable_width import usable_width
from models.llama.probe import identity
from models.system.bounded_read import read_json
from models.system.machine import physical_cores

_LONGEST = 3600.0
"""Plausible seconds of a pass."""
CURVE_KEY, EXACT_KEY, TUNED_KEY = "curve ", "exact width ", "tuned 2, "
"""Prefixes of the records' keys. The number changes when the meaning of a tuned record changes."""
_EXACT = re.compile(rf"{EXACT_KEY}\d+ (deep )?")
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
    if not any(key.startswith(CURVE_KEY) or _TUNED.match(key) for key in records):
        return []
    engine = find_spec("llama_cpp")
    if engine is None or engine.origin is None:
        return []
    # The engine is found without importing it, which would take longer than reading both headers of a pair.
    end = identity(path, Path(engine.origin).parent / "lib")
    mine = {key: value for key, value in records.items() if key.endswith(end)}
    usual = {key: value for key, value in mine.items() if _is_usual(key)}
    return list(_measured(usual)) or list(_measured(mine))


def _is_usual(key: str) -> bool:
    """Tell whether a record is for the present number of cores, and without flags that change the exact width."""
    if (tuned := _TUNED.match(key)) is not None:
        return key.startswith(f"{tuned[0]} cores, ") and int(tuned[2]) == physical_cores()
    return f") {physical_cores()} cores " in key and "flash_attention=False" not in key


def _measured(records: Mapping[str, Any]) -> Iterator[KnownCosts]:
    exact = {
        key[found.end() :]: value for key, value in records.items() if (found := _EXACT.match(key)) and _is_width(value)
    }
    # A file loaded as a draft model has a curve under settings whose exact width was never measured.
    narrowest = min(exact.values(), default=None)
    for key, value in records.items():
        if key.startswith(CURVE_KEY):
            seconds, width = _seconds(value), exact.get(key.removeprefix(CURVE_KEY), narrowest)
        elif (found := _TUNED.match(key)) and isinstance(value, dict):
            seconds, width = _of_tuned(found[1], value), value.get("exact_width")
        else:
            continue
        if 1 in seconds:
            yield KnownCosts(seconds, width if _is_width(width) else None)


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
