"""Schema of the database, and its migration.

`user_version` counts the steps taken. A released step is never changed: further steps are added.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from models.errors import LocalspecError

_TABLES = (
    """
    CREATE TABLE conversation (
        id TEXT PRIMARY KEY NOT NULL,
        title TEXT NOT NULL,
        system TEXT,
        leaf INTEGER,
        created REAL NOT NULL,
        changed REAL NOT NULL
    )
    """,
    "CREATE INDEX conversation_by_change ON conversation (changed)",
    # Neither parent nor leaf is a foreign key: a program must be able to write on to a conversation that another one
    # removed.
    """
    CREATE TABLE entry (
        id INTEGER PRIMARY KEY NOT NULL,
        conversation TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
        parent INTEGER,
        role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
        text TEXT NOT NULL,
        created REAL NOT NULL,
        model TEXT,
        source TEXT,
        drafter TEXT,
        accept TEXT,
        finish TEXT,
        settings TEXT,
        statistics TEXT,
        tokens BLOB
    )
    """,
    "CREATE INDEX entry_by_conversation ON entry (conversation, created)",
)
TOKENIZE = "tokenize = 'unicode61 remove_diacritics 2'"
_SEARCH = (
    f"""
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content = 'entry', content_rowid = 'id', {TOKENIZE}
    )
    """,
    """
    CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN
        INSERT INTO words (rowid, text) VALUES (new.id, new.text);
    END
    """,
    # The index has no copy of the text: a removed text must equal the added one word for word.
    """
    CREATE TRIGGER entry_changed AFTER UPDATE OF text ON entry WHEN old.text IS NOT new.text BEGIN
        INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
        INSERT INTO words (rowid, text) VALUES (new.id, new.text);
    END
    """,
    """
    CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN
        INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
    END
    """,
    "INSERT INTO words (words) VALUES ('rebuild')",
)
_ROUNDS = ("ALTER TABLE entry ADD COLUMN rounds BLOB",)
_TYPED = ("ALTER TABLE entry ADD COLUMN typed TEXT",)
STEPS: tuple[Sequence[str], ...] = (_TABLES, _SEARCH, _ROUNDS, _TYPED)
"""Statements of each step to the next version; an empty file is version 0."""


def migrate(connection: sqlite3.Connection, steps: Sequence[Sequence[str]] = STEPS) -> None:
    """Migrate a database to the latest version, all steps or none; raises LocalspecError for a newer version."""
    if _version(connection) == len(steps):
        return
    with transaction(connection):
        version = _version(connection)
        if version > len(steps):
            raise _newer(version, len(steps))
        # executescript would end the transaction first.
        for step in steps[version:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(steps)}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run all statements or none, as the only writer from the start, so that no read is stale."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have ended the transaction.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _newer(found: int, known: int) -> LocalspecError:
    return LocalspecError(
        "The saved conversations were written by a newer localspec.",
        cause=f"They use version {found} of the format; this localspec supports up to {known}.",
        hint="Update localspec. Until then `localspec run --no-history` works without them.",
    )
