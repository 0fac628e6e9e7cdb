"""What tests share that check a guarantee twice: on the real thing, and on one that is broken on purpose."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import Phase, settings

FIXED = settings(max_examples=150, deadline=None, derandomize=True)
"""The same examples in every run: a red test is red for everybody."""
ONCE = settings(FIXED, phases=[Phase.generate], report_multiple_bugs=False)
"""For broken variants: one counterexample is enough, the smallest is not needed."""


@contextmanager
def caught() -> Iterator[None]:
    """Wrap the check of a broken variant: the check has to fail, or it would let the same fault pass elsewhere."""
    with pytest.raises(AssertionError):
        yield
