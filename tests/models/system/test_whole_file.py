"""Small files come whole or not at all, and what fails leaves nothing behind."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.history.chat_commands import save_conversation
from app.history.recorder import Recorder
from models.errors import LocalspecError
from models.system.whole_file import PRIVATE, SHARED, write_whole


@contextmanager
def full_after(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes, as on a disk without room."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_whole(path, "old")
    for _ in range(3):
        with full_after(10), pytest.raises(OSError, match="too large"):
            write_whole(path, "new " * 10_000)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.json"]
    write_whole(path, "new, with ü")
    assert path.read_text(encoding="utf-8") == "new, with ü"


def test_a_conversation_that_finds_no_room_is_saved_under_the_same_name_when_there_is_some(tmp_path: Path) -> None:
    record, name = Recorder(), str(tmp_path / "talk.md")
    record.ask("word " * 10_000)
    with full_after(10_000), pytest.raises(LocalspecError, match=r"can't be written.\nFile too large"):
        save_conversation(record, name)
    assert not [*tmp_path.iterdir()]
    assert save_conversation(record, name).read_text().count("word") > 10_000


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings/card.toml").write_text("old")
    for name in ("card.toml", "new.toml"):
        link = tmp_path / name
        link.symlink_to(f"settings/{name}")
        write_whole(link, "new")
        assert link.is_symlink()
        assert (tmp_path / "settings" / name).read_text() == "new"
    assert len(list(tmp_path.rglob("*"))) == 5, "nothing is left beside it"


@pytest.mark.parametrize("name", ["missing/file", "folder"])
def test_what_can_not_be_replaced_is_an_error_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=name.split("/", maxsplit=1)[0]):
        write_whole(tmp_path / name, "text")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize(
    ("umask", "mode", "expected"),
    [(0o022, PRIVATE, 0o600), (0o022, SHARED, 0o644), (0o002, SHARED, 0o664), (0o077, SHARED, 0o600)],
)
def test_who_may_read_is_the_owner_or_whom_the_umask_lets(tmp_path: Path, umask: int, mode: int, expected: int) -> None:
    path = tmp_path / "file"
    before = os.umask(umask)
    try:
        write_whole(path, "text", mode)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == expected
