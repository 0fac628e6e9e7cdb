"""Fixtures of the tests of reopened chats on GGUF files."""

import pytest
from known_probes import remember_probes
from tiny_gguf import CHATML_TEMPLATE


@pytest.fixture(autouse=True)
def _probes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_probes(monkeypatch)


@pytest.fixture(autouse=True)
def _with_a_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file have a chat template: without one an answer is joined to its message by another token later."""
    monkeypatch.setattr("models.llama.model.templates_of", lambda _: (CHATML_TEMPLATE, {}))
