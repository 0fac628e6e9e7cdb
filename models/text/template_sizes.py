"""Bounds on the size of a chat template's values, computed from the operands before a value is made."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

ELEMENT = 8
"""Characters that an element of a list counts for."""
_VIEWS: tuple[type[Any], ...] = (type({}.keys()), type({}.values()), type({}.items()))
CONTAINERS: tuple[type[Any], ...] = (list, tuple, dict, set, frozenset, MappingProxyType, *_VIEWS)
_MAPPINGS = (dict, MappingProxyType)
_SLOWER = 64
_TOO_LARGE = 1 << 40
_NUMBER = 1 << 11
"""Characters of the longest number in a format."""
_WIDE = re.compile(r"%[^%a-zA-Z]*?(?:\*|\d{4,})")
"""A width in a format that is large, or comes from elsewhere."""


def elements(container: Any) -> list[Any]:
    """Return what is in a container, keys included."""
    return [*container, *container.values()] if isinstance(container, _MAPPINGS) else list(container)


def product_size(left: Any, right: Any) -> int:
    """Return the size of a text or list that is repeated; 0 for what is no such product."""
    for many, times in ((left, right), (right, left)):
        if isinstance(times, int) and isinstance(many, (str, bytes, list, tuple)):
            size: int = len(many) * times * (1 if isinstance(many, (str, bytes)) else ELEMENT)
            return size
    return 0


def format_size(text: str, values: Any, weight: int) -> int:
    """Return the most characters of `text % values`, where the values have so many."""
    # Names in parentheses would let one large value appear any number of times, and hide widths.
    if isinstance(values, Mapping) or _WIDE.search(text):
        return _TOO_LARGE
    return len(text) + text.count("%") * (_NUMBER + weight)


def replaced_size(text: object, old: object, new: object, *_: Any, **__: Any) -> int:
    """Return the most characters of a text in which one text is put in place of another."""
    return len(str(text)) + str(text).count(str(old)) * max(0, len(str(new)) - len(str(old)))


def _indented_size(text: Any, width: int | str = 4, *_: Any, **__: Any) -> int:
    text = str(text)
    return len(text) + (1 + len(text.splitlines())) * (len(width) if isinstance(width, str) else width)


def _summed_size(*values: Any, start: Any = 0, **_: Any) -> int:
    start = values[2] if len(values) > len(("values", "attribute")) else start
    # Lists that are added to lists are copied once for each.
    return 0 if isinstance(start, (int, float)) else _TOO_LARGE


def _filled_size(_: Any, width: int = 80, *__: Any, **___: Any) -> int:
    return width


def _batch_size(_: Any, linecount: int, *__: Any, **___: Any) -> int:
    return linecount * ELEMENT


def _slice_size(_: Any, slices: int, *__: Any, **___: Any) -> int:
    return slices * ELEMENT


def _rounded_size(_: Any, precision: int = 0, *__: Any, **___: Any) -> int:
    # A power of ten with so many digits is computed.
    return _NUMBER * max(precision, -precision)


def _slow_size(value: Any, *_: Any, **__: Any) -> int:
    # These take a microsecond for each character or element, and can't be stopped.
    return _SLOWER * len(value) if hasattr(value, "__len__") else 0


FILTER_SIZES: dict[str, Callable[..., int]] = {
    "batch": _batch_size,
    "center": _filled_size,
    "indent": _indented_size,
    "replace": replaced_size,
    "round": _rounded_size,
    "slice": _slice_size,
    "sum": _summed_size,
    **dict.fromkeys(("dictsort", "groupby", "sort", "title", "unique", "urlencode"), _slow_size),
}
"""Filters that can make much out of little; they take what the filter takes."""
METHOD_SIZES: dict[str, Callable[..., int]] = {"replace": replaced_size} | dict.fromkeys(
    ("center", "ljust", "rjust", "zfill"), _filled_size
)
"""Methods of texts that can; they take the text first."""
REFUSED_METHODS = frozenset({"encode", "expandtabs", "format_map", "maketrans", "to_bytes", "translate"})
"""Methods of texts and numbers that can, and that no prompt needs."""
REFUSED_FILTERS = ("pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr")
"""Filters for web pages, or that would make a prompt different each time."""
