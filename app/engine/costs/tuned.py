"""Results of `localspec tune` for later loads: stored for one model file, one build and one machine.

Four rules: A flag of the user overrides a tuned setting. A result for another file, build, processor, number of cores
or share of layers on a GPU is ignored. A result for threads given to `tune` counts only for loads with as many given. A
result with rounding allowed counts only for loads that allow it. `app.tune.measuring.choice` makes the choice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from app.engine.costs.known_costs import TUNED_KEY
from models.llama.cache_types import CACHE_TYPES
from models.llama.load import LlamaOptions, has_gpu, threads_of
from models.llama.probe import identity
from models.system.machine import physical_cores
from models.system.remembered import Json, Remembered
from models.system.sealed import is_trusted

_MOST_THREADS = 1024
_WIDEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Setting:
    """Tunable load settings of a model; the fields are those of `LlamaOptions`."""

    threads: int
    """Threads of a one-token pass, at least 1."""
    batch_threads: int
    """Threads of a wider pass, at least 1."""
    flash_attention: bool | None = None
    """None, with both cache types "auto": a load's default attention, which is the exact one."""
    cache_type_k: str = "auto"
    cache_type_v: str = "auto"
    extra_buffers: bool | None = None
    """None: a load's default layout of the weights."""

    def options(self, base: LlamaOptions) -> LlamaOptions:
        """Return the options with every field of this setting replaced."""
        return replace(base, **asdict(self))


@dataclass(frozen=True, slots=True)
class Tuned:
    """Best setting of a target on this machine, and its pass costs."""

    setting: Setting
    exact_width: int
    """Widest pass, at least 1, that equals one-token passes to the last bit at every depth that was tried."""
    verify: Mapping[int, float]
    """T(w): seconds of a pass by its width; width 1 is always there."""
    depth: int
    """Tokens in the cache when `verify` was measured."""
    one_token: Mapping[int, float]
    """Seconds of a one-token pass by the number of tokens in the cache; never empty."""


@dataclass(frozen=True, slots=True)
class TunedDraft:
    """Best setting of a draft model; it need not be exact, as the target verifies every draft token."""

    setting: Setting
    one_token: Mapping[int, float]
    """Seconds of a step by the number of tokens in the cache; never empty."""
    copy: Path | None = None
    """Re-quantised copy to load in its place, on which `one_token` was measured; None: the file itself."""
    beats_copies: bool = False
    """Whether copies were measured and the file itself is as fast; else a load writes a copy as without tuning."""

    @property
    def step(self) -> float:
        """Seconds of a step in a short context."""
        return self.one_token[min(self.one_token)]


def apply_tuned(options: LlamaOptions, tuned: Tuned | TunedDraft | None) -> LlamaOptions:
    """Return the options with tuned values for everything that the user's flags leave open.

    Threads are one choice (`-t 4` sets wide passes too), and so are flash attention and both cache types: a mixture was
    never measured, and may not even load.
    """
    if tuned is None:
        return options
    chosen = tuned.setting
    layout = chosen.extra_buffers if options.extra_buffers is None else options.extra_buffers
    filled = replace(options, extra_buffers=layout)
    if options.threads == 0:
        batch_threads = options.batch_threads or chosen.batch_threads
        filled = replace(filled, threads=chosen.threads, batch_threads=batch_threads)
    return _with_attention(filled, chosen)


def _with_attention(options: LlamaOptions, chosen: Setting) -> LlamaOptions:
    """Fill in attention and cache, if the threads are those that they were chosen with: else they may not be exact."""
    left_open = options.flash_attention is None and options.cache_type_k == options.cache_type_v == "auto"
    if not left_open or threads_of(options) != (chosen.threads, chosen.batch_threads):
        return options
    names = ("flash_attention", "cache_type_k", "cache_type_v")
    return replace(options, **{name: getattr(chosen, name) for name in names})


def measured_for(options: LlamaOptions, tuned: Tuned | TunedDraft) -> bool:
    """Tell whether a record was measured under these options; a flag of the user may have changed one."""
    threads, batch_threads = threads_of(options)
    wanted, setting = replace(options, threads=threads, batch_threads=batch_threads), tuned.setting
    if setting.extra_buffers is None:
        setting = replace(setting, extra_buffers=options.extra_buffers)
    return all(getattr(wanted, field.name) == getattr(setting, field.name) for field in fields(Setting))


def load_tuned(memory: Path, path: Path, options: LlamaOptions, *, allow_rounding: bool = False) -> Tuned | None:
    """Return the stored result for a target on this machine; None without one, or for a damaged record.

    With `allow_rounding` a result under it comes first, then the exact one.
    """
    roles = [_role(rounding) for rounding in ((True, False) if allow_rounding else (False,))]
    found = (_read_tuned(record) for record in _records(memory, path, options, *roles))
    return next((tuned for tuned in found if tuned is not None), None)


def store_tuned(memory: Path, path: Path, options: LlamaOptions, tuned: Tuned, *, allow_rounding: bool = False) -> None:
    """Store the result for a target; `options` are the user's: GPU layers, given threads."""
    Remembered(memory).put(_key(path, options, _role(allow_rounding)), _record(tuned))


def load_tuned_draft(memory: Path, path: Path, options: LlamaOptions) -> TunedDraft | None:
    """Return the stored result for a draft model; None without one, for a damaged record, or for a changed copy."""
    for record in _records(memory, path, options, "draft"):
        tuned = _read_draft(record)
        if tuned and (tuned.copy is None or _is_there(tuned.copy, record.get("copy_identity"))):
            return tuned
    return None


def _is_there(copy: Path, known: Json) -> bool:
    return is_trusted(copy) and identity(copy) == known


def store_tuned_draft(memory: Path, path: Path, options: LlamaOptions, tuned: TunedDraft) -> None:
    """Store the result for a draft model, under the name of the file that the user gives."""
    record = _record(tuned)
    record["copy"] = str(tuned.copy) if tuned.copy else None
    record["copy_identity"] = identity(tuned.copy) if tuned.copy else None
    Remembered(memory).put(_key(path, options, "draft"), record)


def _role(allow_rounding: bool) -> str:
    return "target, rounding allowed" if allow_rounding else "target"


def _records(memory: Path, path: Path, options: LlamaOptions, *roles: str) -> Iterator[dict[str, Json]]:
    """Yield the stored records of these roles: for the given threads, then for tuned threads."""
    known = Remembered(memory)
    for threads in dict.fromkeys((options.threads, 0)):
        for role in roles:
            record = known.get_table(_key(path, replace(options, threads=threads), role))
            if record is not None:
                yield record


def _key(path: Path, options: LlamaOptions, role: str) -> str:
    layers = f"{options.gpu_layers} layers on a GPU" if has_gpu(options) else "no GPU"
    cores = f"{physical_cores()} cores" + (f", -t {options.threads}" if options.threads else "")
    variant = f", variant {options.variant}" if options.variant else ""
    return f"{TUNED_KEY}{role}, {cores}, {layers}{variant}, {identity(path)}"


def _record(tuned: Tuned | TunedDraft) -> dict[str, Json]:
    """Return a record for JSON, with keys that are numbers written as text."""
    record: dict[str, Any] = asdict(tuned)
    for name in ("verify", "one_token"):
        if name in record:
            record[name] = {str(key): seconds for key, seconds in record[name].items()}
    return record


def _read_tuned(record: Mapping[str, Json]) -> Tuned | None:
    try:
        verify = _seconds(record["verify"])
        depth, exact_width = _whole(record["depth"], 0), _whole(record["exact_width"], 1)
        if 1 not in verify:
            return None
        return Tuned(_setting(record["setting"]), exact_width, verify, depth, _seconds(record["one_token"]))
    except (KeyError, TypeError, ValueError):
        return None


def _read_draft(record: Mapping[str, Json]) -> TunedDraft | None:
    try:
        copy = record["copy"]
        if copy is not None and not isinstance(copy, str):
            return None
        place = Path(copy) if copy else None
        beats_copies = record.get("beats_copies") is True
        return TunedDraft(_setting(record["setting"]), _seconds(record["one_token"]), place, beats_copies)
    except (KeyError, TypeError, ValueError):
        return None


def _setting(value: Any) -> Setting:
    """Read and check a setting: a value outside its range would crash llama.cpp."""
    setting = Setting(**value)
    for threads in (setting.threads, setting.batch_threads):
        _whole(threads, 1, _MOST_THREADS)
    if setting.cache_type_k not in CACHE_TYPES or setting.cache_type_v not in CACHE_TYPES:
        raise ValueError("unknown cache type")
    if setting.flash_attention not in (None, True, False) or setting.extra_buffers not in (None, True, False):
        raise ValueError("neither yes nor no")
    return setting


def _seconds(value: Any) -> dict[int, float]:
    if not isinstance(value, dict):
        raise ValueError("not a table")
    table = {_whole(int(key), 0): float(seconds) for key, seconds in value.items()}
    if not table or not all(isfinite(seconds) and seconds > 0 for seconds in table.values()):
        raise ValueError("not a table of seconds")
    return dict(sorted(table.items()))


def _whole(value: Any, least: int, most: int = _WIDEST) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{value!r} is not a whole number from {least} to {most}")
    return value
