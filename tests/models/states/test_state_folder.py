"""The folder of states: whole files or none, private, within limits."""

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from models.states.folder import DamagedStateError, StateFolder
from models.states.parts import divided, usable
from models.states.writer import StateWriter

KEY = "aaaaaaaaaa"
NAME = "00000000-00000512-000000000000000000000000.state"


def state(size: int, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def folder_of(path: Path, most: int = 1 << 20, days: float = 30) -> StateFolder:
    return StateFolder(path / "chats", most, days)


def aged(folder: StateFolder, key: str, days: float) -> None:
    moment = time.time() - days * 86_400
    os.utime(folder.path / key, (moment, moment))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    assert folder.write(KEY, NAME, state(100_000))
    assert np.array_equal(folder.read(KEY, NAME), state(100_000))
    assert folder.names(KEY) == [NAME]
    assert folder.size(KEY) > 100_000


@pytest.mark.parametrize("data", [b"", b"x" * 40, b"localspec state 1\n", b"localspec state 1\n" + b"\0" * 30])
def test_any_other_file_is_damaged(tmp_path: Path, data: bytes) -> None:
    folder = folder_of(tmp_path)
    folder.write(KEY, NAME, state(10))
    (folder.path / KEY / NAME).write_bytes(data)
    with pytest.raises(DamagedStateError):
        folder.read(KEY, NAME)


def test_every_changed_byte_is_seen(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    folder.write(KEY, NAME, state(40))
    path = folder.path / KEY / NAME
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(DamagedStateError):
            folder.read(KEY, NAME)


def test_a_conversation_never_takes_more_than_there_is_room_for(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, most=2_500)
    assert folder.write(KEY, NAME, state(1_000))
    assert folder.write(KEY, "second.state", state(1_000))
    assert not folder.write(KEY, "third.state", state(1_000))
    assert len(folder.names(KEY)) == 2


def test_the_longest_unused_conversations_go_first_and_the_current_one_last(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, most=2_600)
    for number, key in enumerate(("oldest", "older", "new")):
        folder.write(key, NAME, state(1_000))
        aged(folder, key, 3 - number)
    folder.trim("oldest")
    assert sorted(folder.keys()) == ["new", "oldest"]
    folder.trim("new")
    assert sorted(folder.keys()) == ["new", "oldest"]


def test_what_is_unused_for_too_many_days_goes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, days=7)
    for key, days in (("old", 8), ("young", 6), ("used", 9)):
        folder.write(key, NAME, state(10))
        aged(folder, key, days)
    folder.use("used")
    folder.trim()
    assert sorted(folder.keys()) == ["used", "young"]


def test_a_partial_file_of_a_killed_process_goes_after_an_hour(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    folder.write(KEY, NAME, state(10))
    old, new = (folder.path / KEY / f"{NAME}.{number}.partial" for number in "12")
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 4_000,) * 2)
    folder.use(KEY)
    folder.keep_only(KEY, [NAME])
    folder.trim(KEY)
    assert folder.names(KEY) == [NAME, new.name]


def test_a_missing_folder_has_nothing(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    folder.remove(KEY)
    folder.trim()
    folder.use(KEY)
    assert (folder.names(KEY), folder.keys(), folder.size(KEY)) == ([], [], 0)


def test_the_writer_goes_on_after_a_write_that_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = folder_of(tmp_path)
    writer = StateWriter(folder)
    writer.put(f"no/{'x' * 300}", NAME, state(10))
    writer.put(KEY, NAME, state(10))
    writer.put(KEY, "left.state", state(10))
    writer.finish(KEY, [NAME])
    assert writer.settle()
    assert folder.names(KEY) == [NAME]
    assert "not kept" in caplog.text


def test_the_writers_thread_ends_and_begins_again(tmp_path: Path) -> None:
    writer = StateWriter(folder_of(tmp_path))
    writer.put(KEY, NAME, state(10))
    assert writer.settle()
    end = time.monotonic() + 30
    while any(thread.name == "states" for thread in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(thread.name == "states" for thread in threading.enumerate())
    writer.put(KEY, "more.state", state(10))
    assert writer.settle()
    assert len(writer.folder.names(KEY)) == 2


def test_parts_of_a_text_follow_each_other() -> None:
    text = list(range(1_300))
    parts = divided(b"model", text, 512)
    assert [(part.start, part.end) for part in parts] == [(0, 512), (512, 1024), (1024, 1300)]
    assert [(part.start, part.end) for part in divided(b"model", text, 0)] == [(0, 1300)]
    names = [part.name for part in parts]
    assert usable(b"model", text, names) == parts
    assert usable(b"model", [*text, 5], names) == parts
    assert usable(b"model", text[:1200], names) == parts[:2]
    assert usable(b"model", [*text[:600], 7, *text[601:]], names) == parts[:1]
    assert usable(b"another", text, names) == []
    assert usable(b"model", text, names[1:]) == []


def test_the_longest_of_two_parts_of_one_place_is_used() -> None:
    text = list(range(900))
    short, long = divided(b"model", text[:700], 512), divided(b"model", text, 512)
    names = [part.name for part in (*short, *long)] + ["other.txt", "00000512-00000900-zz.state"]
    assert usable(b"model", text, names) == long
    assert usable(b"model", text[:800], names) == short
