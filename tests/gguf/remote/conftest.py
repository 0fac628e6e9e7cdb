"""Fixtures of all tests with workers."""

import pytest
from known_probes import remember_probes
from workers import require_an_engine_with_workers


@pytest.fixture(autouse=True)
def _probes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_probes(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def _built_with_workers() -> None:
    require_an_engine_with_workers()
