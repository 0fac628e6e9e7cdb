"""Numbers as text: bars, sparklines and meters in eighths of a character or in ASCII, and formatted figures.

`None` stands for a number that is not known; it is drawn as such, never as 0.
"""

from collections.abc import Sequence
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from app.shell.safe_text import visible

UNKNOWN = "-"
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS, _ASCII_HEIGHTS = "▁▂▃▄▅▆▇█", "_.-:=+*#"
_GAP, _ASCII_GAP = "·", " "


def bar(share: float, width: int, *, ascii_only: bool = False) -> str:
    """Return a bar of `width` columns for a share from 0 to 1.

    What is not 0 is seen, and what is not 1 does not reach the end.
    """
    steps = 2 if ascii_only else 8
    most = width * steps
    filled = round(min(max(share, 0.0), 1.0) * most)
    if 0 < share < 1:
        filled = min(max(filled, 1), most - 1)
    whole, rest = divmod(max(filled, 0), steps)
    signs = " -#" if ascii_only else _EIGHTHS
    return (signs[-1] * whole + signs[rest] * (rest > 0)).ljust(width)


def meter(share: float | None, width: int, *, ascii_only: bool = False) -> str:
    """Return a bar between two marks, `width` columns in all, so that its end is seen too."""
    inside = max(0, width - 2)
    return f"[{UNKNOWN:^{inside}}]" if share is None else f"[{bar(share, inside, ascii_only=ascii_only)}]"


def sparkline(
    values: Sequence[float | None], *, top: float | None = None, ascii_only: bool = False
) -> tuple[str, float]:
    """Return one character for each value from 0 to `top`, and `top`: by default the largest value.

    The lowest sign is 0, and nothing else is drawn as 0.
    """
    known = [value for value in values if value is not None]
    top = max(known, default=0.0) if top is None else top
    signs, gap = (_ASCII_HEIGHTS, _ASCII_GAP) if ascii_only else (_HEIGHTS, _GAP)
    return "".join(gap if value is None else signs[_height(value, top, len(signs) - 1)] for value in values), top


def buckets(values: Sequence[float | None], count: int) -> list[float | None]:
    """Return the means of so many stretches of the values, as even as can be; no more of them than there are values."""
    count = min(count, len(values))
    edges = [len(values) * place // count for place in range(count + 1)] if count > 0 else [0]
    return [_mean(values[start:end]) for start, end in pairwise(edges)]


def bucket_of(index: int, size: int, count: int) -> int:
    """Return the stretch of `buckets` that the value at an index belongs to, of `size` values in `count` stretches."""
    count = min(count, size)
    return ((index + 1) * count - 1) // size


def percent(share: float | None) -> str:
    """Return a share in percent; only 1 is written 100%, and only 0 is written 0%."""
    if share is None:
        return UNKNOWN
    if 0 < share < 0.01:
        return "<1%"
    return "99%" if 0.99 < share < 1 else f"{share:.0%}"


def probability(value: float) -> str:
    """Return a probability with three digits; only 0 and 1 are written 0 and 1."""
    if value in (0, 1):
        return f"{value:g}"
    if not 0.0005 <= value <= 0.9995:
        return "<0.001" if value < 0.5 else ">0.999"
    return f"{value:.3f}"


def rate(value: float | None) -> str:
    """Return tokens a second with three digits."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}"


def size(count: int | None) -> str:
    """Return a number of bytes in the unit that people read it in."""
    if count is None:
        return UNKNOWN
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def fit(text: str, width: int) -> str:
    """Return a text, or as much of its beginning as a screen shows in so many columns, with dots for the rest."""
    if cell_len(text) <= width:
        return text
    dots = "..."[: max(0, width)]
    return set_cell_size(text, max(0, width - len(dots))) + dots


def shown(text: str, *, ascii_only: bool = False) -> str:
    """Return a foreign text with its control characters made visible; `ascii_only` escapes all but ASCII."""
    text = visible(text)
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text


def _height(value: float, top: float, highest: int) -> int:
    if value <= 0 or top <= 0:
        return 0
    # Rounded up: the smallest value is still above the line of those that are 0.
    return min(highest, -int(-value / top * highest // 1))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
