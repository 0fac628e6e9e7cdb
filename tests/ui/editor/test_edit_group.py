"""A file that is saved stays in its group."""

import os
import stat
from pathlib import Path

import pytest

from app.ui.editor.file import open_file

GROUP = 12_345
pytestmark = pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files to any group"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("old")
    os.chown(path, -1, GROUP)
    path.chmod(0o2664)
    return path


def test_a_file_that_is_saved_keeps_its_group_and_permissions(path: Path) -> None:
    before = path.stat()
    open_file(path).save("new")
    found = path.stat()
    assert found.st_ino != before.st_ino, "another file in its place"
    assert (path.read_text(), found.st_gid, stat.S_IMODE(found.st_mode)) == ("new", GROUP, 0o2664)


def test_where_the_group_can_not_be_given_the_file_is_written_in_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chown(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", chown)
    before = path.stat()
    open_file(path).save("new")
    found = path.stat()
    assert (path.read_text(), found.st_ino, found.st_gid) == ("new", before.st_ino, GROUP)
    assert [one.name for one in path.parent.iterdir()] == ["a.txt"]
