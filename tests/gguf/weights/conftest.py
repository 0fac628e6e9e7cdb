"""Fixtures of all tests that load weights in an unusual way."""

import pytest
from known_probes import remember_probes


@pytest.fixture(autouse=True)
def _probes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_probes(monkeypatch)
