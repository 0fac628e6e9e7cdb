"""Reading and writing of saved conversations by one thread; reading never creates the file."""

import json
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.history.database import is_damage, is_full, move_aside, open_database
from app.history.records import Conversation, Entry, Record, SavedAnswer, Summary
from app.history.schema import transaction
from app.shell.safe_text import storable
from models.errors import LocalspecError, UsageError

_TITLE = "The saved conversations can't be used."
_MOST_NAMED = 8
_CONVERSATION = "id, title, system, leaf, created, changed"
_ENTRY = (
    "id, conversation, parent, role, text, created, "
    "model, source, drafter, accept, finish, settings, statistics, tokens, rounds, typed"
)
_PUT_CONVERSATION = f"""
    INSERT INTO conversation ({_CONVERSATION}) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET
        title = excluded.title, system = excluded.system, leaf = excluded.leaf, changed = excluded.changed
"""
_PUT_ENTRY = f"""
    INSERT INTO entry ({_ENTRY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET
        text = excluded.text, drafter = excluded.drafter, accept = excluded.accept, finish = excluded.finish,
        statistics = excluded.statistics, tokens = excluded.tokens, rounds = excluded.rounds
"""
_LATEST = f"SELECT {_CONVERSATION} FROM conversation ORDER BY changed DESC, rowid DESC LIMIT ?"
_LAST = f"SELECT {_CONVERSATION} FROM conversation WHERE leaf IS NOT NULL ORDER BY changed DESC, rowid DESC LIMIT 1"
_BY_PREFIX = f"SELECT {_CONVERSATION} FROM conversation WHERE id >= ? AND id < ? ORDER BY id LIMIT {_MOST_NAMED + 1}"
_ENTRIES = f"SELECT {_ENTRY} FROM entry WHERE conversation = ? ORDER BY created, rowid"
_FREE_THE_LOG = "PRAGMA wal_checkpoint (TRUNCATE)"
_COUNT = "SELECT count(*) FROM entry WHERE conversation = ?"
_MODEL = """
    SELECT model FROM entry WHERE conversation = ? AND model IS NOT NULL ORDER BY created DESC, rowid DESC LIMIT 1
"""


class Damaged(LocalspecError):
    """The file is no longer a valid database."""


class Store:
    """The conversations of one file. Every method raises LocalspecError, and Damaged if `set_aside` can help."""

    def __init__(self, path: Path, note: Callable[[str], object] = lambda _: None) -> None:
        """Take the file, and a receiver of the note about a damaged one."""
        self.path = path
        self.lost = False
        """Whether earlier records are lost from the file; the writer resets it after writing them again."""
        self._note = note
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    def write(self, records: Iterable[Record]) -> None:
        """Save records in their present state, all or none; a conversation precedes its entries. May be repeated."""
        rows = [_row(record) for record in records]
        with self._failures():
            database = self._open()
            try:
                _put(database, rows)
            except sqlite3.OperationalError as error:
                if not is_full(error):
                    raise
                # After this, changed pages that are in the file need no more space.
                database.execute(_FREE_THE_LOG)
                _put(database, rows)

    def latest(self, limit: int = -1) -> list[Summary]:
        """Return the last changed conversations, latest first; a limit below 0: all."""
        found = [Conversation(*row) for row in self.rows(_LATEST, (limit,))]
        return [self._summary(conversation) for conversation in found]

    def find(self, prefix: str = "") -> Conversation:
        """Return the conversation whose id begins with a text; for "" the last one with a message."""
        if not prefix:
            found = [Conversation(*row) for row in self.rows(_LAST) or self.rows(_LATEST, (1,))]
            if not found:
                raise LocalspecError("No conversations are saved.", hint=f"The file for them is {self.path}.")
            return found[0]
        # "g" sorts after all characters of an id.
        found = [Conversation(*row) for row in self.rows(_BY_PREFIX, (prefix.lower(), prefix.lower() + "g"))]
        if len(found) != 1:
            raise _not_one(prefix, found)
        return found[0]

    def entries(self, conversation: str) -> list[Entry]:
        """Return all entries of a conversation, on all branches, in order of creation."""
        return [_entry(row) for row in self.rows(_ENTRIES, (conversation,))]

    def remove(self, conversations: Iterable[str]) -> None:
        """Remove conversations for good: also from the search index, and from the bytes of the file."""
        with self._failures():
            if self._is_missing():
                return
            database = self._open()
            with transaction(database):
                database.executemany("DELETE FROM conversation WHERE id = ?", [(name,) for name in conversations])
                # The index only marks removed words until its parts are merged.
                database.execute("INSERT INTO words (words) VALUES ('optimize')")
            database.execute(_FREE_THE_LOG)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; none for a missing file."""
        with self._failures():
            if self._is_missing():
                return []
            fit = [storable(value) if isinstance(value, str) else value for value in values]
            return self._open().execute(query, fit).fetchall()

    def set_aside(self) -> None:
        """Move the damaged file away and report its new path; the next use creates a new file."""
        with self._failures():
            self.close()
            self._tell(move_aside(self.path, self._inode))
            self.lost = True

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_missing(self) -> bool:
        """Tell whether the file is missing: a read must not create it."""
        return self._connection is None and not self.path.exists()

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and not self._in_place():
            self.close()
            self.lost = True
        if self._connection is None:
            self._connection, moved = open_database(self.path)
            self._inode = self.path.stat().st_ino
            self.lost = self.lost or moved is not None
            self._tell(moved)
        return self._connection

    def _in_place(self) -> bool:
        """Tell whether the open file still has its name: another program may have moved it as damaged."""
        try:
            return self.path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def _tell(self, moved: Path | None) -> None:
        if moved is not None:
            self._note(
                f"The file of saved conversations is damaged. It is kept as {moved}, and a new file is used. "
                "sqlite3 with .recover may restore most of it."
            )

    def _summary(self, conversation: Conversation) -> Summary:
        ((count,),) = self.rows(_COUNT, (conversation.id,))
        models = self.rows(_MODEL, (conversation.id,))
        return Summary(conversation, count, models[0][0] if models else None)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            kind = Damaged if is_damage(error) else LocalspecError
            raise kind(_TITLE, cause=str(error), hint=f"The file is {self.path}.") from error
        except OSError as error:
            raise LocalspecError(_TITLE, cause=str(error), hint=f"The file is {self.path}.") from error


def _not_one(prefix: str, found: Sequence[Conversation]) -> UsageError:
    if not found:
        hint = "localspec history ls lists the ids. The first digits of an id suffice."
        return UsageError(f"No conversation's id begins with '{prefix}'.", hint=hint)
    names = [f"{conversation.id}  {conversation.title}" for conversation in found[:_MOST_NAMED]]
    more = ["..."] if len(found) > _MOST_NAMED else []
    return UsageError(f"Several ids begin with '{prefix}'.", cause="\n".join(names + more), hint="Give more digits.")


def _put(database: sqlite3.Connection, rows: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
    with transaction(database):
        for command, values in rows:
            database.execute(command, values)


def _row(record: Record) -> tuple[str, tuple[Any, ...]]:
    if isinstance(record, Conversation):
        return _PUT_CONVERSATION, _conversation_row(record)
    return _PUT_ENTRY, _entry_row(record)


def _conversation_row(record: Conversation) -> tuple[Any, ...]:
    system = None if record.system is None else storable(record.system)
    return (record.id, storable(record.title), system, record.leaf, record.created, record.changed)


def _entry_row(entry: Entry) -> tuple[Any, ...]:
    fields = (entry.id, entry.conversation, entry.parent, entry.role, storable(entry.text), entry.created)
    answer = entry.answer
    if answer is None:
        return (*fields, *[None] * 9, None if entry.typed is None else storable(entry.typed))
    how = (storable(answer.model), storable(answer.source), answer.drafter, answer.accept, answer.finish)
    tokens = struct.pack(f"<{len(answer.tokens)}i", *answer.tokens)
    details = (json.dumps(dict(answer.settings)), json.dumps(dict(answer.statistics)))
    return (*fields, *how, *details, tokens, answer.rounds, None)


def _entry(row: Sequence[Any]) -> Entry:
    number, conversation, parent, role, text, created, model, source, drafter, accept, finish, *details = row
    settings, statistics, packed, rounds, typed = details
    entry = Entry(number, conversation, parent, role, text, created, typed=typed)
    if model is None:
        return entry
    tokens = struct.unpack(f"<{len(packed) // 4}i", packed)
    made = (json.loads(settings), json.loads(statistics))
    return replace(entry, answer=SavedAnswer(model, source, drafter, accept, finish, *made, tokens, rounds or b""))
