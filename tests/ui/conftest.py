"""Fixtures that several tests of the screen share."""

from pathlib import Path

import pytest
from known_probes import remember_probes
from ui_chat import own_folders


@pytest.fixture(autouse=True)
def _probes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_probes(monkeypatch)


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give the test folders of its own for settings, data and caches."""
    own_folders(monkeypatch, tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file that is edited; it is not there yet."""
    return tmp_path / "shapes.py"
