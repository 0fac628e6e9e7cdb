"""Measurements are kept in a file that may be missing, damaged or unwritable."""

import json
import os
import threading
from pathlib import Path

import pytest

from models.system.remembered import Remembered

LEFT = ["file.json", "file.json.lock"]


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_put_is_found_by_the_next_process_too(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "file.json"
    memory = Remembered(path)
    assert memory.get("speed") is None
    memory.put("speed", 12)
    memory.put("safe", False)
    memory.put("speed", 13)
    for reader in (memory, Remembered(path)):
        assert (reader.get("speed"), reader.get("safe"), reader.get("other")) == (13, 0, None)


def test_nothing_but_the_file_and_its_lock_is_left_behind(tmp_path: Path) -> None:
    Remembered(tmp_path / "file.json").put("a", 1)
    assert files_in(tmp_path) == LEFT


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
    memory = Remembered(tmp_path / "file" / "inside.json")
    memory.put("a", 1)
    assert memory.get("a") is None


def test_each_getter_finds_its_own_kind_of_value(tmp_path: Path) -> None:
    memory = Remembered(tmp_path / "file.json")
    values = {"whole": 3, "part": 0.5, "yes": True, "table": {"1": 0.25}, "text": "3", "list": [1]}
    for key, value in values.items():
        memory.put(key, value)
    found = {key: (memory.get(key), memory.get_table(key)) for key in (*values, "none")}
    assert found == {
        "whole": (3, None),
        "part": (None, None),
        "yes": (True, None),
        "table": (None, {"1": 0.25}),
        "text": (None, None),
        "list": (None, None),
        "none": (None, None),
    }


def test_a_file_of_an_earlier_version_is_read_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{\n "extra buffers ab": true,\n "exact width cd": 3\n}')
    memory = Remembered(path)
    memory.put("curve", {"1": 0.05})
    assert (memory.get("extra buffers ab"), memory.get("exact width cd")) == (1, 3)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text("{}")
    path.chmod(0o644)
    Remembered(path).put("a", 1)
    assert path.stat().st_mode & 0o777 == 0o600


def test_writers_at_once_lose_nothing_and_never_leave_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    keys = [f"key {number}" for number in range(60)]
    stop = threading.Event()
    torn: list[str] = []

    def read() -> None:
        while not stop.is_set():
            text = path.read_text() if path.exists() else "{}"
            try:
                json.loads(text)
            except ValueError:
                torn.append(text)

    def write(mine: list[str]) -> None:
        for key in mine:
            Remembered(path).put(key, "x" * 500)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(keys[start::4],)) for start in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert (torn, {*json.loads(path.read_text())}) == ([], {*keys})
    assert files_in(tmp_path) == LEFT


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    memory = Remembered(path)
    memory.put("a", 1)

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    memory.put("a", 2)
    assert memory.get("a") == 1
    assert files_in(tmp_path) == LEFT
