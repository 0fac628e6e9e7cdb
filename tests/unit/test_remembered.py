"""Measurements are kept in a file that may be missing, damaged or unwritable."""

import json
from pathlib import Path

import pytest

from models.remembered import Remembered


def test_what_was_put_is_found_by_the_next_process_too(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "file.json"
    memory = Remembered(path)
    assert memory.get("speed") is None
    memory.put("speed", 12)
    memory.put("safe", False)
    memory.put("speed", 13)
    for reader in (memory, Remembered(path)):
        assert (reader.get("speed"), reader.get("safe"), reader.get("other")) == (13, 0, None)


def test_nothing_but_the_file_is_left_behind(tmp_path: Path) -> None:
    Remembered(tmp_path / "file.json").put("a", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe\x00", b"[1]", b"7", b"null", b'{"a": "text"}', b'{"a": null}']
)
def test_a_damaged_file_remembers_nothing_and_is_mended_by_the_next_value(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    memory = Remembered(path)
    assert memory.get("a") is None
    memory.put("a", 5)
    assert memory.get("a") == 5


def test_values_of_others_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"theirs": [1, 2]}')
    Remembered(path).put("ours", 3)
    assert json.loads(path.read_text()) == {"theirs": [1, 2], "ours": 3}


def test_a_file_that_can_not_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "inside.json", tmp_path / "folder"):
        memory = Remembered(path)
        memory.put("a", 1)
        assert memory.get("a") is None
