"""Choice of a setting; no other module decides it.

The default setting is the one whose passes are exact as far as this machine allows. Another one is chosen only if it is
faster by more than noise and, unless rounding is allowed, only if it was measured to be exact at every depth where the
default was tried and at one beyond 256 tokens, each time for passes at least as wide as the default's. Exactness comes
before speed: a faster setting with shorter exact drafts is not chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.engine.costs.tuned import Setting
from app.engine.costs.usable_width import usable_width
from models.llama.strict import MARGIN, seconds_a_token
from models.system.counted import counted

DEEP = 256
"""Tokens in the cache from which on llama.cpp may sum attention differently; exactness is checked beyond."""
WIDTHS = (1, 2, 3, 4, 6, 8)
"""Widths of the passes by which settings are compared."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Measurements of one setting."""

    label: str
    """Attention, cache and weights in words."""
    setting: Setting
    seconds: Mapping[int, Mapping[int, float]]
    """Seconds of a pass, by tokens in the cache, then by width."""
    exact: Mapping[int, int]
    """Widest pass that equals one-token passes to the last bit, by tokens in the cache."""

    @property
    def exact_width(self) -> int:
        """Return the widest pass that is exact at every depth that was tried; 1 if none was."""
        return min(self.exact.values(), default=1)


def best(rows: Sequence[Measure], *, allow_rounding: bool) -> Measure:
    """Return the setting to use; the first row is the default."""
    default = rows[0]
    allowed = [row for row in rows[1:] if allow_rounding or as_exact(row, default)]
    quickest = min(allowed, key=lambda row: relative(row, default, allow_rounding=allow_rounding), default=default)
    gain = 1 - relative(quickest, default, allow_rounding=allow_rounding)
    return quickest if gain > MARGIN else default


def as_exact(row: Measure, default: Measure) -> bool:
    """Tell whether a setting was exact for passes as wide as the default's, at all depths of the default."""
    deep = any(depth > DEEP for depth in row.exact)
    return deep and all(row.exact.get(depth, 0) >= width for depth, width in default.exact.items())


def relative(row: Measure, default: Measure, *, allow_rounding: bool) -> float:
    """Return the seconds per token of a setting over those of the default, over their common depths."""
    depths = sorted(set(row.seconds) & set(default.seconds))
    if not depths:
        return 1.0
    ratios = [
        _seconds_a_token(row, depth, allow_rounding=allow_rounding)
        / _seconds_a_token(default, depth, allow_rounding=allow_rounding)
        for depth in depths
    ]
    return sum(ratios) / len(ratios)


def verdict(row: Measure, default: Measure, chosen: Measure, *, allow_rounding: bool) -> str:
    """Return a sentence on this setting: its speed, its exactness, and whether it was chosen."""
    depth = max(set(row.seconds) & set(default.seconds), default=0)
    gain = 1 - row.seconds[depth][1] / default.seconds[depth][1] if depth in row.seconds else 0.0
    speed = f"{abs(gain):.0%} {'faster' if gain >= 0 else 'slower'} than the default at {depth:,} tokens"
    return f"{row.label}: {speed}; {_fate(row, default, chosen, allow_rounding=allow_rounding)}."


def _fate(row: Measure, default: Measure, chosen: Measure, *, allow_rounding: bool) -> str:
    exact = f"exact up to {counted(row.exact_width, 'token')} per pass, the default up to {default.exact_width}"
    if row is chosen:
        return f"chosen ({exact})"
    if 1 - relative(row, default, allow_rounding=allow_rounding) <= MARGIN:
        return f"not chosen: no gain with drafting ({exact})"
    if allow_rounding or as_exact(row, default):
        return "not chosen: another is faster"
    if row.exact_width < default.exact_width:
        return f"{exact}: only with --allow-rounding"
    return f"no time to check exactness beyond {DEEP} tokens: only with --allow-rounding, or more --seconds"


def _seconds_a_token(row: Measure, depth: int, *, allow_rounding: bool) -> float:
    seconds = row.seconds[depth]
    return seconds_a_token(seconds, usable_width(row.exact_width, max(seconds), allow_rounding=allow_rounding))
