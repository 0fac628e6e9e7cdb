"""llama.cpp as it is without kernels of ours: what those are there to mend shows only then."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from models.bindings import kernels
from models.errors import LocalspecError
from models.kernels.compiling import check_possible


@contextmanager
def llama_cpps_own() -> Iterator[None]:
    kernels().enable(False)
    try:
        yield
    finally:
        kernels().enable(True)


def skip_where_impossible() -> None:
    """Skip a test where there can be no kernels of ours."""
    try:
        check_possible()
    except LocalspecError as error:
        pytest.skip(f"no kernels here: {error}")
