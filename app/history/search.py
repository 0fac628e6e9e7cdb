"""Full-text search: messages with all words, best match first, with the words marked."""

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from app.history.plain_text import without_signs
from app.history.records import Conversation, Hit, divides
from app.history.schema import TOKENIZE
from app.history.store import Store
from app.shell.safe_text import storable
from models.errors import UsageError
from models.text.thoughts import MARK_WORDS, divided

_OPEN, _CLOSE = "\x02", "\x03"
_AROUND = 16
"""Number of words shown around a match."""
_HIT = """
    SELECT conversation.id, title, system, leaf, conversation.created, changed, entry.id, role, entry.created,
        entry.text, entry.settings
"""
_SEARCH = f"""{_HIT}
    FROM words JOIN entry ON entry.id = words.rowid JOIN conversation ON conversation.id = entry.conversation
    WHERE words MATCH ? ORDER BY rank LIMIT ?
"""
_LOOK = f"""{_HIT}
    FROM entry JOIN conversation ON conversation.id = entry.conversation
    WHERE %s ORDER BY entry.created DESC LIMIT ?
"""
_HAS_PART = "instr(lower(entry.text), lower(?))"
_HAS_WORDS = "entry.id IN (SELECT rowid FROM words WHERE words MATCH ?)"
_PIECES = f"CREATE VIRTUAL TABLE piece USING fts5 (text, {TOKENIZE})"
_SNIPPET = """
    SELECT snippet(piece, 0, char(2), char(3), '…', ?) FROM piece WHERE piece MATCH ? ORDER BY rank LIMIT 1
"""
_PIECE = re.compile(r".{1,4000}(?=\s|\Z)|.{1,4000}", re.DOTALL)
"""Characters of a part of a message; a snippet's cost grows with the square of the matches in it."""
_TERMS = re.compile(r'"([^"]*)"|(\S+)')
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts without spaces between words: the index takes all characters between two signs as one word."""
_MARKS = re.compile(rf"(?<![^\W_])(?:{'|'.join(MARK_WORDS)})(?![^\W_])|\*", re.IGNORECASE)
"""Words that may match marks around thoughts: a word of a mark, or any beginning of one."""
_NEAR = 40
"""Characters shown on both sides of a match within a text."""
_MARKED = re.compile(f"{_OPEN}(.*?){_CLOSE}", re.DOTALL)


def search(store: Store, text: str, limit: int = -1) -> list[Hit]:
    """Return the messages that contain every word of a query; a limit below 0: all.

    Case and accents are ignored. Words in double quotes must be adjacent, and a star ends the beginning of a word;
    other signs have no meaning. In scripts without spaces, a part of the text matches, latest message first. Raises
    LocalspecError, UsageError for a query without a word.
    """
    text = storable(text)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as pieces:
        pieces.execute(_PIECES)
        return [
            Hit(Conversation(*about), entry, role, created, _parts(_excerpt(pieces, stored, settings, text)))
            for *about, entry, role, created, stored, settings in _rows(store, pieces, text, limit)
        ]


def to_query(text: str) -> str:
    """Return a typed query as an FTS5 query, whose only operators are the quotes and stars added here."""
    terms = _terms(text)
    if not terms:
        raise UsageError(f"The query '{text}' contains no word.", hint="Give one or more words.")
    return " ".join(terms)


def _rows(store: Store, pieces: sqlite3.Connection, text: str, limit: int) -> Iterable[tuple[Any, ...]]:
    """Return the matches, without those in the hidden marks around thoughts."""
    if not _MARKS.search(text):
        return store.rows(*_query(text, limit))
    shown = (row for row in store.rows(*_query(text, -1)) if _is_shown(pieces, row[-2], row[-1], text))
    return islice(shown, limit) if limit >= 0 else shown


def _is_shown(pieces: sqlite3.Connection, stored: str, settings: str | None, wanted: str) -> bool:
    """Tell whether the displayed part of a message contains all words."""
    shown, words = _shown(stored, settings), _words_query(wanted)
    if shown == stored or not words:
        return True
    pieces.execute("DELETE FROM piece")
    pieces.execute("INSERT INTO piece (text) VALUES (?)", (shown,))
    return pieces.execute("SELECT 1 FROM piece WHERE piece MATCH ?", (words,)).fetchone() is not None


def _query(text: str, limit: int) -> tuple[str, Sequence[str | int]]:
    """Return the SQL query: over the index or, for words that it can't split, over each message."""
    parts = _parts_wanted(text)
    if not parts:
        return _SEARCH, (to_query(text), limit)
    words = _words_query(text)
    conditions = [_HAS_PART] * len(parts) + [_HAS_WORDS] * bool(words)
    return _LOOK % " AND ".join(conditions), [*parts, *[words] * bool(words), limit]


def _words_query(text: str) -> str:
    """Return the FTS5 query of the words that the index knows."""
    return " ".join(_quoted(word) for word in _words(text) if not _UNSPACED.search(word))


def _parts_wanted(text: str) -> list[str]:
    return [word.rstrip("*") for word in _words(text) if _UNSPACED.search(word)]


def _words(text: str) -> list[str]:
    words = [match[1] or match[2] or "" for match in _TERMS.finditer(text)]
    # The index ignores words without a letter or digit.
    return [word for word in words if any(map(str.isalnum, word))]


def _terms(text: str) -> list[str]:
    return [_quoted(word) for word in _words(text)]


def _quoted(term: str) -> str:
    # SQLite would end the query at a NUL.
    word = term.rstrip("*").replace('"', '""').replace("\0", " ")
    return f'"{word}"' + ("*" if term.endswith("*") else "")


def _excerpt(pieces: sqlite3.Connection, text: str, settings: str | None, wanted: str) -> str:
    """Return the best excerpt of a message; `settings` are those of an answer."""
    snippet = _snippet(pieces, _shown(text, settings), wanted)
    return snippet if settings is None else without_signs(snippet)


def _shown(text: str, settings: str | None) -> str:
    """Return a message without marks around thoughts; `settings` are those of an answer."""
    if settings is None:
        return text
    parts = divided(text, divides=divides(json.loads(settings)))
    return "\n\n".join(filter(None, (parts.thoughts, parts.answer)))


def _snippet(pieces: sqlite3.Connection, text: str, wanted: str) -> str:
    """Return the best excerpt with the words marked; if no piece has a whole word, one around a partial match."""
    pieces.execute("DELETE FROM piece")
    pieces.executemany("INSERT INTO piece (text) VALUES (?)", ((part[0],) for part in _PIECE.finditer(text)))
    found = pieces.execute(_SNIPPET, (_AROUND, " OR ".join(_terms(wanted)))).fetchone()
    return str(found[0]) if found else _around(text, _parts_wanted(wanted))


def _around(text: str, parts: Sequence[str]) -> str:
    """Return the text around the first of some parts, marked; the beginning of the text if none occurs."""
    found = re.search("|".join(map(re.escape, parts)), text, re.IGNORECASE) if parts else None
    if found is None:
        return text[:100]
    start, end = max(0, found.start() - _NEAR), found.end() + _NEAR
    before, behind = "…" * (start > 0) + text[start : found.start()], text[found.end() : end] + "…" * (end < len(text))
    return f"{before}{_OPEN}{found[0]}{_CLOSE}{behind}"


def _parts(snippet: str) -> tuple[tuple[str, bool], ...]:
    # After a split with a group, every second piece is a match of the group.
    pieces = _MARKED.split(snippet)
    return tuple((piece, place % 2 == 1) for place, piece in enumerate(pieces) if piece)
