"""Full-text search: all words must occur in one message; the best match first, with the words marked."""

import re
import sqlite3
from contextlib import closing

from app.history.records import Conversation, Hit
from app.history.safe_text import storable
from app.history.schema import TOKENIZE
from app.history.store import Store
from models.errors import UsageError

_OPEN, _CLOSE = "\x02", "\x03"
_AROUND = 16
"""Words shown around a hit."""
_SEARCH = """
    SELECT conversation.id, title, system, leaf, conversation.created, changed, entry.id, role, entry.created,
        entry.text
    FROM words JOIN entry ON entry.id = words.rowid JOIN conversation ON conversation.id = entry.conversation
    WHERE words MATCH ? ORDER BY rank LIMIT ?
"""
_PIECES = f"CREATE VIRTUAL TABLE piece USING fts5 (text, {TOKENIZE})"
_SNIPPET = """
    SELECT snippet(piece, 0, char(2), char(3), '…', ?) FROM piece WHERE piece MATCH ? ORDER BY rank LIMIT 1
"""
_PIECE = re.compile(r".{1,4000}(?=\s|\Z)|.{1,4000}", re.DOTALL)
"""Part of a message; the cost of a snippet grows with the square of the hits in what it is made of."""
_TERMS = re.compile(r'"([^"]*)"|(\S+)')
_MARKED = re.compile(f"{_OPEN}(.*?){_CLOSE}", re.DOTALL)


def search(store: Store, text: str, limit: int = -1) -> list[Hit]:
    """Return the messages that have every word of a text; a limit below 0: all.

    Case and accents make no difference. Words between double quotes must stand together, and a star ends the beginning
    of a word; nothing else has a meaning. Raises LocalspecError, UsageError when there is no word.
    """
    text = storable(text)
    rows = store.rows(_SEARCH, (to_query(text), limit))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as pieces:
        pieces.execute(_PIECES)
        return [
            Hit(Conversation(*row[:6]), row[6], row[7], row[8], _parts(_snippet(pieces, row[9], text))) for row in rows
        ]


def to_query(text: str) -> str:
    """Return what a person typed as an FTS5 query in which nothing but our own quotes and stars is an operator."""
    terms = _terms(text)
    if not terms:
        raise UsageError(f"There is no word in '{text}'.", hint="Give the words to search for.")
    return " ".join(terms)


def _terms(text: str) -> list[str]:
    terms = [match[1] or match[2] or "" for match in _TERMS.finditer(text)]
    # What holds no letter and no digit is no word to the index either.
    return [_quoted(term) for term in terms if any(map(str.isalnum, term))]


def _quoted(term: str) -> str:
    # SQLite would take a NUL for the end of the query.
    word = term.rstrip("*").replace('"', '""').replace("\0", " ")
    return f'"{word}"' + ("*" if term.endswith("*") else "")


def _snippet(pieces: sqlite3.Connection, text: str, wanted: str) -> str:
    """Return the best part of a message with the words marked; its beginning, should no piece have a whole phrase."""
    pieces.execute("DELETE FROM piece")
    pieces.executemany("INSERT INTO piece (text) VALUES (?)", ((part[0],) for part in _PIECE.finditer(text)))
    found = pieces.execute(_SNIPPET, (_AROUND, " OR ".join(_terms(wanted)))).fetchone()
    return str(found[0]) if found else text[:100]


def _parts(snippet: str) -> tuple[tuple[str, bool], ...]:
    # Split at a pattern with a group, every second piece is what the group matched.
    pieces = _MARKED.split(snippet)
    return tuple((piece, place % 2 == 1) for place, piece in enumerate(pieces) if piece)
