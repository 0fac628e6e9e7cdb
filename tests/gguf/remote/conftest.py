"""Fixtures of all tests with workers."""

import pytest
from known_probes import remember_probes

from models.llama.weights.workers import has_workers


@pytest.fixture(autouse=True)
def _probes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_probes(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def _built_with_workers() -> None:
    assert has_workers(), "the engine is built with GGML_RPC=ON, see pyproject.toml"
