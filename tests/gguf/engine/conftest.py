"""Fixtures of all tests that run an engine on GGUF files."""

import pytest
from known_probes import remember_probes


@pytest.fixture(autouse=True)
def _probes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_probes(monkeypatch)
