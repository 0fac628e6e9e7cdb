"""llama.cpp as it is without kernels of ours: what those are there to mend shows only then."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from models.errors import LocalspecError
from models.kernels.compiling import check_possible, compiled
from models.llama.bindings import kernels
from models.system.file_lock import locked


@contextmanager
def llama_cpps_own() -> Iterator[None]:
    kernels().enable(False)
    try:
        yield
    finally:
        kernels().enable(True)


def built(extra: tuple[str, ...], temporary: Path) -> Path:
    """Return the kernels compiled with more flags, once for all tests and processes of a run; its temporary folder."""
    shared = temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary
    folder = shared / "kernels"
    folder.mkdir(exist_ok=True)
    with locked(folder / "lock", patience=600.0):
        return compiled(extra, folder)


def skip_where_impossible() -> None:
    """Skip a test where there can be no kernels of ours."""
    try:
        check_possible()
    except LocalspecError as error:
        pytest.skip(f"no kernels here: {error}")
