"""The file of saved conversations: records are read back by any process, and the file is private."""

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from checking import caught
from run_localspec import ROOT
from saved import ANSWER, all_bytes, answered, asked, conversation, modes, steps, talk

from app.history import database
from app.history import store as store_module
from app.history.records import Conversation, Entry
from app.history.schema import STEPS, migrate, transaction
from app.history.store import Damaged, Store
from models.errors import LocalspecError, UsageError

FOLDER = "data"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FOLDER / "conversations.db"


def saved(path: Path, *talks: list[Conversation | Entry]) -> Path:
    with closing(Store(path)) as store:
        for records in talks:
            store.write(records)
    return path


def texts(path: Path, number: int) -> list[str]:
    with closing(Store(path)) as store:
        return [entry.text for entry in store.entries(conversation(number).id)]


def test_what_is_written_is_read_back_by_another(path: Path) -> None:
    head = conversation(3, leaf=2, title="Ünïcode ✓", system="be brief")
    entries = [asked(1, "why?\n", of=head), answered(2, "because\0 …", 1, of=head)]
    saved(path, [head, *entries])
    with closing(Store(path)) as store:
        assert store.find("0000000003") == head
        assert store.entries(head.id) == entries
        assert store.entries(head.id)[1].answer == ANSWER


def test_a_record_written_again_takes_the_place_of_its_old_form(path: Path) -> None:
    head, question, answer = talk(1, "why?", "be")
    assert isinstance(head, Conversation)
    longer = answered(1001, "because", 1000)
    saved(path, [head, question, answer], [head, longer], [head, longer])
    assert texts(path, 1) == ["why?", "because"]


def test_text_that_is_no_unicode_is_saved_all_the_same(path: Path) -> None:
    head, question = talk(1, "caf\udce9")
    assert isinstance(head, Conversation)
    saved(path, [head, question])
    assert texts(path, 1) == ["caf?"]
    with closing(Store(path)) as store, pytest.raises(UsageError):
        store.find("\udce9")


def test_reading_makes_no_file(path: Path) -> None:
    with closing(Store(path)) as store:
        assert store.latest() == store.entries("00") == []
        with pytest.raises(LocalspecError, match="No conversations are saved"):
            store.find()
    assert not path.parent.exists()


def test_all_or_none_of_the_records_are_written(path: Path) -> None:
    saved(path, talk(1, "first"))
    orphan = asked(5, "whose?", of=conversation(99))
    with closing(Store(path)) as store, pytest.raises(LocalspecError, match="can't be used"):
        store.write([*talk(2, "second"), orphan])
    assert (texts(path, 1), texts(path, 2)) == (["first"], [])


def test_the_last_is_the_one_changed_last_in_which_something_is_said(path: Path) -> None:
    emptied = conversation(9, leaf=None)
    saved(path, talk(2, "b"), [emptied], talk(1, "a"), talk(3, "c", "d"))
    with closing(Store(path)) as store:
        assert [found.conversation.title for found in store.latest(2)] == ["title 9", "title 3"]
        assert store.find().title == "title 3"
        counted = [(found.entries, found.model) for found in store.latest()]
    assert counted == [(0, None), (2, "big"), (1, None), (1, None)]


def test_where_nothing_was_said_in_any_the_last_is_the_one_listed_first(path: Path) -> None:
    saved(path, [conversation(1, leaf=None)], [conversation(2, leaf=None)])
    with closing(Store(path)) as store:
        assert store.find() == store.latest(1)[0].conversation


def test_an_id_may_be_cut_as_long_as_it_is_the_only_one(path: Path) -> None:
    saved(path, *([conversation(number)] for number in (0xA1, 0xA2, 0xB1)))
    with closing(Store(path)) as store:
        assert store.find("00000000B").id == store.find("00000000b1").id == "00000000b1"
        with pytest.raises(UsageError, match="Several ids begin with '00000000a'") as failure:
            store.find("00000000a")
        assert failure.value.cause == "00000000a1  title 161\n00000000a2  title 162"
        for strange in ("x", "%", "00000000b11", "'"):
            with pytest.raises(UsageError, match="No conversation's id begins"):
                store.find(strange)


@pytest.mark.skipif(os.name == "nt", reason="modes are another system's")
def test_only_its_owner_can_read_it_at_every_moment(path: Path) -> None:
    before = os.umask(0)
    try:
        with closing(Store(path)) as store:
            store.write(talk(1, "hello"))
            assert modes(path.parent) == {
                FOLDER: 0o700,
                **{path.name + ending: 0o600 for ending in ("", "-wal", "-shm", ".lock")},
            }
    finally:
        os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="modes are another system's")
def test_a_copy_that_lost_its_mode_gets_it_back(path: Path) -> None:
    saved(path, talk(1, "hello"))
    path.chmod(0o644)
    path.parent.chmod(0o755)
    assert texts(path, 1) == ["hello"]
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)


def removed_for_good(path: Path) -> None:
    saved(path, talk(1, "xylophone", "zeppelin " * 900), talk(2, "kept"), talk(3, "xylophone", "quasar"))
    with closing(Store(path)) as store:
        store.remove([conversation(1).id, conversation(3).id])
        assert texts(path, 1) == texts(path, 3) == []
        assert texts(path, 2) == ["kept"]
        left = all_bytes(path.parent)
    assert b"kept" in left
    for word in (b"xylophone", b"zeppelin", b"quasar", b"title 1"):
        assert word not in left


def test_what_is_removed_is_not_in_any_file_any_more(path: Path) -> None:
    removed_for_good(path)


def test_without_secure_delete_it_would_be(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pragmas = [pragma for pragma in database._PRAGMAS if "secure_delete" not in pragma]
    monkeypatch.setattr(database, "_PRAGMAS", (*pragmas, "PRAGMA secure_delete = OFF"))
    with caught():
        removed_for_good(path)


def log_of_changes(path: Path) -> int:
    """Return how long the log beside the file gets in a conversation of three hundred messages, in bytes."""
    lengths = []
    with closing(Store(path)) as store:
        for number in range(300):
            store.write([*talk(1, "question"), asked(2000 + number, "more " * 50, 1000)])
            lengths.append(path.with_name(path.name + "-wal").stat().st_size)
    return max(lengths)


def test_the_log_of_changes_stays_small(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert log_of_changes(path) < 512 << 10
    usual = [pragma for pragma in database._PRAGMAS if "autocheckpoint" not in pragma]
    monkeypatch.setattr(database, "_PRAGMAS", usual)
    assert log_of_changes(path.with_name("usual.db")) > 2 << 20


def test_a_removed_conversation_takes_its_entries_along(path: Path) -> None:
    saved(path, talk(1, "a", "b"))
    with closing(Store(path)) as store:
        store.remove([conversation(1).id])
        assert store.rows("SELECT count(*) FROM entry") == [(0,)]
        assert store.latest() == []


def test_a_conversation_that_another_program_removed_can_go_on(path: Path) -> None:
    head, question, answer = talk(1, "a", "b")
    assert isinstance(head, Conversation)
    with closing(Store(path)) as chat, closing(Store(path)) as other:
        chat.write([head, question, answer])
        other.remove([head.id])
        chat.write([head, asked(7, "still here", parent=1001)])
    assert texts(path, 1) == ["still here"]


DAMAGES = {
    "no database": lambda path: path.write_bytes(b"this is no database, and never was one" * 200),
    "overwritten": lambda path: path.write_bytes(path.read_bytes()[:100] + os.urandom(len(path.read_bytes()) - 100)),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:5000]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_moved_aside_and_told_of(path: Path, damage: str) -> None:
    saved(path, talk(1, "hello", "world " * 5000))
    DAMAGES[damage](path)
    bytes_before, notes = path.read_bytes(), []
    with closing(Store(path, notes.append)) as store:
        store.write(talk(2, "again"))
    assert texts(path, 2) == ["again"]
    (aside,) = database.damaged_files(path)
    assert aside.read_bytes() == bytes_before
    assert len(notes) == 1
    assert str(aside) in notes[0]


def test_damage_found_in_the_middle_is_told_and_the_file_can_be_set_aside(path: Path) -> None:
    saved(path, talk(1, "hello", *("world " * 3000 for _ in range(9))))
    content = bytearray(path.read_bytes())
    # Where long texts are, after the pages that opening reads.
    content[18 * 4096 : 28 * 4096] = os.urandom(10 * 4096)
    notes: list[str] = []
    with closing(Store(path, notes.append)) as store:
        store.write([conversation(5)])
        store.close()
        path.write_bytes(bytes(content))
        with pytest.raises(Damaged, match="can't be used"):
            store.entries(conversation(1).id)
        store.set_aside()
        store.write(talk(2, "again"))
    assert len(notes) == len(database.damaged_files(path)) == 1


def test_a_file_that_another_program_replaced_is_not_moved(path: Path) -> None:
    notes: list[str] = []
    with closing(Store(path, notes.append)) as store:
        store.write(talk(1, "old"))
        path.rename(path.with_name("elsewhere"))
        saved(path, talk(2, "new"))
        store.set_aside()
    assert (notes, texts(path, 2)) == ([], ["new"])


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def old_file(path: Path, steps_taken: int) -> None:
    """Make a file as it was after so many steps."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, STEPS[:steps_taken])


@pytest.mark.parametrize("old", range(len(STEPS)))
def test_a_file_of_each_older_version_becomes_todays(path: Path, old: int) -> None:
    old_file(path, old)
    assert version(path) == old
    if old:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO conversation VALUES ('0000000001', 'old', NULL, 1, 1, 1)")
            columns = "id, conversation, role, text, created"
            connection.execute(f"INSERT INTO entry ({columns}) VALUES (1, '0000000001', 'user', 'hi', 1)")
    saved(path, talk(2, "new"))
    assert version(path) == len(STEPS)
    with closing(Store(path)) as store:
        assert [found.conversation.title for found in store.latest()] == ["title 2", *["old"] * (old > 0)]
        # What was there before the index was made is in the index.
        assert len(store.rows("SELECT rowid FROM words WHERE words MATCH 'hi OR new'")) == 1 + (old > 0)


def failing_step_changes_nothing(path: Path) -> None:
    old_file(path, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, (STEPS[0], ["CREATE TABLE half (id)", "NO SUCH STATEMENT"]))
        assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").fetchone() == (0,)
    assert version(path) == 1


def test_a_step_that_fails_changes_nothing(path: Path) -> None:
    failing_step_changes_nothing(path)


def test_outside_a_transaction_it_would_leave_half_a_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.history.schema.transaction", lambda _: nullcontext())
    with caught():
        failing_step_changes_nothing(path)


def test_a_transaction_is_the_only_writer_from_its_first_moment(path: Path) -> None:
    saved(path, talk(1, "hello"))
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as one,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as two,
    ):
        with transaction(one), pytest.raises(sqlite3.OperationalError, match="locked"):
            two.execute("DELETE FROM entry")
        two.execute("DELETE FROM entry")
    assert texts(path, 1) == []


def test_a_newer_file_is_refused_and_left_alone(path: Path) -> None:
    saved(path, talk(1, "hello"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with closing(Store(path)) as store:
        for use in (lambda: store.write(talk(2, "more")), store.latest, lambda: store.remove(["x"])):
            with pytest.raises(LocalspecError, match="newer localspec") as failure:
                use()
    assert "version 99 of the format; this localspec supports up to 4" in failure.value.cause
    assert "--no-history" in failure.value.hint
    assert path.read_bytes() == before
    assert database.damaged_files(path) == []


WRITER = """
import sys, time
from pathlib import Path
from app.history.records import Conversation, Entry
from app.history.store import Store
store, first = Store(Path(sys.argv[1])), int(sys.argv[2])
head = Conversation(f"{int(sys.argv[3]):010x}", "title", None, None, 1.0, 1.0)
for number in range(first, first + 15):
    store.write([head, Entry(number, head.id, None, "user", f"message {number}", float(number))])
    while store.rows("SELECT count(*) FROM entry") < [(2,)]:
        time.sleep(0.001)  # until the other one writes too
store.close()
"""


@pytest.mark.parametrize("heads", [(1, 2), (1, 1)])
def test_two_programs_write_at_once_and_lose_nothing(path: Path, heads: tuple[int, int]) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(first), str(head)], cwd=ROOT)
        for first, head in zip((1000, 2000), heads, strict=True)
    ]
    assert [process.wait(timeout=60) for process in writers] == [0, 0]
    wanted = {f"message {number}" for first in (1000, 2000) for number in range(first, first + 15)}
    assert {text for head in set(heads) for text in texts(path, head)} == wanted
    assert database.damaged_files(path) == []


def test_a_program_that_holds_the_file_for_too_long_is_named_as_the_reason(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_PATIENCE", 0.05)
    saved(path, talk(1, "hello"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other, closing(Store(path)) as store:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LocalspecError, match="can't be used") as failure:
            store.write(talk(2, "again"))
        assert failure.value.cause == "database is locked"
        assert not isinstance(failure.value, Damaged)
        # Reading goes on meanwhile.
        assert [entry.text for entry in store.entries(conversation(1).id)] == ["hello"]
        other.execute("ROLLBACK")
        store.write(talk(2, "again"))
    assert texts(path, 2) == ["again"]


def test_a_folder_that_can_t_be_made_is_an_error_with_the_place(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file where the folder belongs")
    path = tmp_path / FOLDER / "conversations.db"
    with closing(Store(path)) as store, pytest.raises(LocalspecError, match="can't be used") as failure:
        store.write(talk(1, "hello"))
    assert str(path) in failure.value.hint


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_an_error_with_the_place(path: Path) -> None:
    path.parent.mkdir(mode=0o500)
    with closing(Store(path)) as store, pytest.raises(LocalspecError, match="can't be used"):
        store.write(talk(1, "hello"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 10,000 messages in 500 conversations."""
    path = tmp_path_factory.mktemp("large") / FOLDER / "conversations.db"
    with closing(Store(path)) as store:
        store.write(
            record
            for number in range(1, 501)
            for record in talk(number, *(f"message {place} of {number}" for place in range(20)))
        )
    return path


QUERIES = {
    "latest": (store_module._LATEST, (20,), "USING INDEX conversation_by_change"),
    "last": (store_module._LAST, (), "USING INDEX conversation_by_change"),
    "by prefix": (store_module._BY_PREFIX, ("0000000001", "0000000001g"), "conversation_1 (id>? AND id<?)"),
    "entries": (store_module._ENTRIES, ("0000000001",), "entry_by_conversation (conversation=?)"),
    "count": (store_module._COUNT, ("0000000001",), "entry_by_conversation (conversation=?)"),
    "model": (store_module._MODEL, ("0000000001",), "entry_by_conversation (conversation=?)"),
}


@pytest.mark.parametrize("name", QUERIES)
def test_ten_thousand_messages_are_reached_by_an_index_alone(large: Path, name: str) -> None:
    query, values, wanted = QUERIES[name]
    with closing(sqlite3.connect(large)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
        assert wanted in plan[0]
        assert not [line for line in plan if line.startswith("SCAN") and "INDEX" not in line]
        assert not [line for line in plan if "TEMP B-TREE" in line]


@pytest.mark.parametrize("name", QUERIES)
def test_what_a_query_costs_does_not_grow_with_the_store(large: Path, path: Path, name: str) -> None:
    query, values, _ = QUERIES[name]
    saved(path, *(talk(number, *(f"message {place} of {number}" for place in range(20))) for number in range(1, 26)))
    with closing(sqlite3.connect(large)) as much, closing(sqlite3.connect(path)) as little:
        assert steps(much, query, values) <= 1.5 * steps(little, query, values)


def test_without_the_index_it_would(large: Path, path: Path) -> None:
    saved(path, talk(1, "a"))
    query, values, _ = QUERIES["entries"]
    with closing(sqlite3.connect(large)) as much, closing(sqlite3.connect(path)) as little:
        much.execute("BEGIN")
        much.execute("DROP INDEX entry_by_conversation")
        with caught():
            assert steps(much, query, values) <= 100 * steps(little, query, values)
        much.execute("ROLLBACK")
