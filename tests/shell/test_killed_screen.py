"""Records of open screens that are no records: a start goes on, and waits for nothing."""

import os
import pty
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.shell import killed_screen


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the place of this terminal's record."""
    path = tmp_path / "record"
    monkeypatch.setattr(killed_screen, "_file_of", lambda _: path)
    other, own = pty.openpty()
    with closing(os.fdopen(own, "w")) as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        yield path
    os.close(other)


def test_a_pipe_is_not_waited_for(record: Path) -> None:
    os.mkfifo(record)
    killed_screen.tell_killed_screen()
    assert record.is_fifo()


def test_a_file_without_end_is_not_read(record: Path) -> None:
    with record.open("wb") as file:
        file.truncate(1 << 40)
    killed_screen.tell_killed_screen()
    assert record.exists()


@pytest.mark.parametrize("content", ["", "[]", "[" * 900, '{"process": "a"}', '{"process": 1e9}', "\0"])
def test_what_is_no_record_is_left_alone(record: Path, content: str) -> None:
    record.write_text(content)
    killed_screen.tell_killed_screen()
    assert record.read_text() == content
