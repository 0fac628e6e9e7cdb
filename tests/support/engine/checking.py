"""What tests share that check a guarantee twice: on the real thing, and on one that is broken on purpose."""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import Phase, settings

FIXED = settings(max_examples=150, deadline=None, derandomize=True)
"""The same examples in every run: a failing test fails in every run."""
ONCE = settings(FIXED, phases=[Phase.generate], report_multiple_bugs=False)
"""For broken variants: one counterexample is enough, the smallest is not needed."""


@contextmanager
def caught() -> Iterator[None]:
    """Wrap the check of a broken variant: the check has to fail, or it would let the same fault pass elsewhere."""
    with pytest.raises(AssertionError):
        yield


def obeyed(text: str) -> list[str]:
    """Return what of a text a terminal would not draw but do, such as move its cursor or turn a line around."""
    turning = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cs") or unicodedata.bidirectional(c) in turning]
