"""Trials in these tests are short: what a trial counts does not depend on the length of its answers."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _short_trials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.forge.trial.CLASSES", ("chat", "math"))
        patch.setattr("app.forge.trial._TOKENS", 24)
        yield
