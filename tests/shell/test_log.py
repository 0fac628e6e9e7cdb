"""The log: on the terminal there is never a word of it."""

import logging
from pathlib import Path

import pytest

from app.shell.log import open_log


def test_a_log_that_can_not_be_written_says_nothing_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("localspec")
    for name in ("level", "propagate"):
        monkeypatch.setattr(logger, name, getattr(logger, name))
    monkeypatch.setattr(logger, "handlers", [])
    # Opened for writing, a folder is refused to every user.
    monkeypatch.setattr("app.shell.log.log_file", lambda: tmp_path)
    open_log()
    logger.warning("words")
    assert len(logger.handlers) == 1
    assert capsys.readouterr() == ("", "")
