"""llama.cpp as it is without kernels of ours: what those are there to mend shows only then."""

from collections.abc import Iterator
from contextlib import contextmanager

from models.bindings import kernels


@contextmanager
def llama_cpps_own() -> Iterator[None]:
    kernels().enable(False)
    try:
        yield
    finally:
        kernels().enable(True)
