"""A conversation and its disk: one thread of its own, nothing lost, one note, and no waiting in vain."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from checking import caught
from saved import branch, on_disk, others, talk, tell

from app.history import database
from app.history import scribe as scribe_module
from app.history.recorder import Recorder
from app.history.records import Entry
from app.history.scribe import Scribe
from app.history.store import Damaged, Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations.db"


@pytest.fixture
def recorder(path: Path) -> Iterator[Recorder]:
    with closing(Recorder(Scribe(path), model="big", source="/big.gguf")) as recorder:
        yield recorder


def of_threads(work: Any) -> set[str]:
    """Return the names of the threads on which SQLite was used while this ran."""
    names, connect = set(), sqlite3.connect

    def spy(*arguments: Any, **settings: Any) -> sqlite3.Connection:
        names.add(threading.current_thread().name)
        return connect(*arguments, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", spy)
        work()
    return names


def test_the_disk_is_the_business_of_one_thread_of_its_own(recorder: Recorder) -> None:
    assert of_threads(lambda: tell(recorder, "q", "a")) == {"history"}


def failing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_PATIENCE", 0.02)
    monkeypatch.setattr(database, "_OPENING_PATIENCE", 0.02)
    path.parent.mkdir(parents=True, exist_ok=True)


def test_a_busy_file_costs_one_note_and_all_is_written_when_it_is_free(
    recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(path, monkeypatch)
    tell(recorder, "q1", "a1")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        tell(recorder, "q2", "It rains. And pours. " * 9)
        recorder.undo()
        tell(recorder, "q3", "a3")
        (note,) = notes_at_last(recorder)
        assert "is not saved" in note
        assert "database is locked" in note
        other.execute("ROLLBACK")
    tell(recorder, "q4", "a4")
    recorder.close()
    assert branch(path) == ["q1", "a1", "q3", "a3", "q4", "a4"]
    assert others(path) == [["q2", "It rains. And pours. " * 9]]
    assert recorder.notes() == []


def test_what_could_not_be_written_is_tried_again_at_the_end(
    recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(path, monkeypatch)
    tell(recorder, "q1", "a1")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        tell(recorder, "q2", "a2")
        assert len(notes_at_last(recorder)) == 1
        other.execute("ROLLBACK")
    assert branch(path) == ["q1", "a1"]
    recorder.close()
    assert branch(path) == ["q1", "a1", "q2", "a2"]


def notes_at_last(recorder: Recorder) -> list[str]:
    """Return the notes, once what was put has been tried."""
    scribe = recorder._scribe
    assert scribe is not None
    with scribe._changed:
        assert scribe._changed.wait_for(lambda: scribe._tried == scribe._requested, 10)
    return recorder.notes()


def test_a_folder_that_can_t_be_used_costs_one_note(path: Path) -> None:
    path.parent.write_text("a file where the folder belongs")
    with closing(Recorder(Scribe(path))) as recorder:
        for turn in range(3):
            tell(recorder, f"q{turn}", "a. b. c.")
        recorder.undo()
        (note,) = notes_at_last(recorder)
        assert str(path) in note
        assert len(recorder.turns()) == 4
    assert recorder.notes() == []


def nothing_is_lost_with_the_file(path: Path, *, resumed: bool) -> list[str]:
    """Damage the file in mid-chat, and let another program move it; return the notes of the chat."""
    recorder = Recorder(Scribe(path))
    tell(recorder, "q1", "a1 " * 9000)
    if resumed:
        before = on_disk(path)
        recorder.close()
        recorder = Recorder(Scribe(path))
        recorder.resume(*before)
    path.write_bytes(b"damaged" * 20_000)
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    if not resumed:
        with closing(Store(path)) as other:
            other.write(talk(1, "hello"))
    tell(recorder, "q2", "a2")
    recorder.close()
    assert branch(path) == ["q1", "a1 " * 9000, "q2", "a2"]
    (aside,) = database.damaged_files(path)
    assert aside.read_bytes().startswith(b"damaged")
    return recorder.notes()


def test_a_file_found_damaged_is_moved_and_the_new_one_has_all_of_the_conversation(path: Path) -> None:
    (note,) = nothing_is_lost_with_the_file(path, resumed=True)
    assert str(database.damaged_files(path)[0]) in note


def test_a_file_that_another_program_moved_is_noticed_and_nothing_is_lost(path: Path) -> None:
    assert nothing_is_lost_with_the_file(path, resumed=False) == []


@pytest.mark.parametrize("resumed", [False, True])
def test_writing_on_without_a_look_back_would_lose_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, resumed: bool
) -> None:
    monkeypatch.setattr(Store, "lost", property(lambda _: False, lambda *_: None), raising=False)
    with caught():
        nothing_is_lost_with_the_file(path, resumed=resumed)


def test_damage_met_while_writing_is_mended_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, write, failures = Recorder(Scribe(path)), Store.write, [True]
    tell(recorder, "q1", "a1")

    def malformed(store: Store, records: Any) -> None:
        if failures:
            failures.pop()
            raise Damaged("malformed")
        write(store, records)

    monkeypatch.setattr(Store, "write", malformed)
    tell(recorder, "q2", "a2")
    recorder.close()
    assert branch(path) == ["q1", "a1", "q2", "a2"]
    assert len(database.damaged_files(path)) == len(recorder.notes()) == 1


def test_a_newer_file_costs_one_note_and_is_left_alone(path: Path) -> None:
    with closing(Store(path)) as store:
        store.write(talk(1, "hello"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with closing(Recorder(Scribe(path))) as recorder:
        tell(recorder, "q", "a")
        (note,) = notes_at_last(recorder)
    assert "Update localspec" in note
    assert path.read_bytes() == before


def test_a_mistake_of_ours_costs_a_note_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("oops")

    monkeypatch.setattr(Store, "write", broken)
    with closing(Recorder(Scribe(path))) as recorder:
        tell(recorder, "q", "a")
        assert "ValueError: oops" in notes_at_last(recorder)[0]
        tell(recorder, "q", "a")


def waits_for_no_hanging_disk(scribe: Scribe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count how often the caller waits: once for a disk that hangs, and each time for one that works again."""
    gate, waits = threading.Event(), []
    write, wait_for = Store.write, threading.Condition.wait_for

    def hangs(store: Store, records: Any) -> None:
        gate.wait()
        write(store, records)

    def counted(condition: threading.Condition, predicate: Any, timeout: float | None = None) -> Any:
        if timeout is not None:
            waits.append(timeout)
        return wait_for(condition, predicate, timeout and (10 if gate.is_set() else 0.01))

    monkeypatch.setattr(Store, "write", hangs)
    monkeypatch.setattr(threading.Condition, "wait_for", counted)
    recorder = Recorder(scribe)
    for turn in range(5):
        tell(recorder, f"q{turn}", "It rains. ")
    hung = list(waits)
    gate.set()
    notes_at_last(recorder)
    waits.clear()
    tell(recorder, "q5", "It rains. ")
    recorder.close()
    assert (hung, waits) == ([2.0], [2.0] * 3)


def test_a_disk_that_hangs_is_waited_for_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits_for_no_hanging_disk(Scribe(path), monkeypatch)
    assert len(branch(path)) == 12


def test_a_scribe_that_never_learns_would_wait_each_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Patient(Scribe):
        def settle(self, seconds: float) -> bool:
            self._reliable = True
            return super().settle(seconds)

    with caught():
        waits_for_no_hanging_disk(Patient(path), monkeypatch)


@pytest.mark.parametrize("waits", [True, False])
def test_a_screen_does_not_wait_at_all(path: Path, *, waits: bool) -> None:
    asked = []

    class Watched(Scribe):
        def settle(self, seconds: float) -> bool:
            asked.append(seconds)
            return super().settle(seconds)

    recorder = Recorder(Watched(path), wait=2.0 if waits else 0.0)
    tell(recorder, "q", "a")
    recorder.close()
    assert (max(asked) > 0) == waits
    assert branch(path) == ["q", "a"]


def test_what_is_put_while_another_write_runs_is_written_after_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, gate, write = threading.Event(), threading.Event(), Store.write

    def slow(store: Store, records: Any) -> None:
        started.set()
        gate.wait()
        write(store, records)

    monkeypatch.setattr(Store, "write", slow)
    scribe = Scribe(path)
    head, question_, short = talk(1, "q", "a")
    scribe.put(head, question_, short)
    started.wait()
    scribe.put(head, Entry(short.id, head.id, short.parent, "assistant", "a longer one", 1.0, short.answer))  # type: ignore[union-attr,arg-type]
    gate.set()
    assert scribe.settle(10)
    scribe.close()
    assert branch(path) == ["q", "a longer one"]


def test_the_wait_at_the_end_is_longer_than_the_database_s_own() -> None:
    assert scribe_module._LEAVING_SECONDS > database._PATIENCE
