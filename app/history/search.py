"""Full-text search: all words must occur in one message; the best match first, with the words marked."""

import json
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing

from app.history.plain_text import without_signs
from app.history.records import Conversation, Hit, divides
from app.history.safe_text import storable
from app.history.schema import TOKENIZE
from app.history.store import Store
from models.errors import UsageError
from models.thoughts import divided

_OPEN, _CLOSE = "\x02", "\x03"
_AROUND = 16
"""Words shown around a hit."""
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
"""Part of a message; the cost of a snippet grows with the square of the hits in what it is made of."""
_TERMS = re.compile(r'"([^"]*)"|(\S+)')
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Characters of scripts without spaces between words: to the index all that stands between two signs is one word."""
_NEAR = 40
"""Characters shown on both sides of a part of a text."""
_MARKED = re.compile(f"{_OPEN}(.*?){_CLOSE}", re.DOTALL)


def search(store: Store, text: str, limit: int = -1) -> list[Hit]:
    """Return the messages that have every word of a text; a limit below 0: all.

    Case and accents make no difference. Words between double quotes must stand together, and a star ends the beginning
    of a word; nothing else has a meaning. Where words are not apart, a part of the text is enough, and the latest
    message comes first. Raises LocalspecError, UsageError when there is no word.
    """
    text = storable(text)
    rows = store.rows(*_query(text, limit))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as pieces:
        pieces.execute(_PIECES)
        return [
            Hit(Conversation(*about), entry, role, created, _parts(_excerpt(pieces, said, settings, text)))
            for *about, entry, role, created, said, settings in rows
        ]


def to_query(text: str) -> str:
    """Return what a person typed as an FTS5 query in which nothing but our own quotes and stars is an operator."""
    terms = _terms(text)
    if not terms:
        raise UsageError(f"There is no word in '{text}'.", hint="Give the words to search for.")
    return " ".join(terms)


def _query(text: str, limit: int) -> tuple[str, Sequence[str | int]]:
    """Return what finds the messages: the index, or, where it does not know the words, a look at each of them."""
    parts = _parts_wanted(text)
    if not parts:
        return _SEARCH, (to_query(text), limit)
    words = " ".join(_quoted(word) for word in _words(text) if not _UNSPACED.search(word))
    conditions = [_HAS_PART] * len(parts) + [_HAS_WORDS] * bool(words)
    return _LOOK % " AND ".join(conditions), [*parts, *[words] * bool(words), limit]


def _parts_wanted(text: str) -> list[str]:
    return [word.rstrip("*") for word in _words(text) if _UNSPACED.search(word)]


def _words(text: str) -> list[str]:
    words = [match[1] or match[2] or "" for match in _TERMS.finditer(text)]
    # What holds no letter and no digit is no word to the index either.
    return [word for word in words if any(map(str.isalnum, word))]


def _terms(text: str) -> list[str]:
    return [_quoted(word) for word in _words(text)]


def _quoted(term: str) -> str:
    # SQLite would take a NUL for the end of the query.
    word = term.rstrip("*").replace('"', '""').replace("\0", " ")
    return f'"{word}"' + ("*" if term.endswith("*") else "")


def _excerpt(pieces: sqlite3.Connection, text: str, settings: str | None, wanted: str) -> str:
    """Return the best part of a message as text; `settings` are those of an answer."""
    if settings is None:
        return _snippet(pieces, text, wanted)
    parts = divided(text, divides=divides(json.loads(settings)))
    return without_signs(_snippet(pieces, "\n\n".join(filter(None, (parts.thoughts, parts.said))), wanted))


def _snippet(pieces: sqlite3.Connection, text: str, wanted: str) -> str:
    """Return the best part of a message with the words marked; one around a part, should no piece have a whole word."""
    pieces.execute("DELETE FROM piece")
    pieces.executemany("INSERT INTO piece (text) VALUES (?)", ((part[0],) for part in _PIECE.finditer(text)))
    found = pieces.execute(_SNIPPET, (_AROUND, " OR ".join(_terms(wanted)))).fetchone()
    return str(found[0]) if found else _around(text, _parts_wanted(wanted))


def _around(text: str, parts: Sequence[str]) -> str:
    """Return where one of some parts is first in a text, marked; the beginning of the text where none is."""
    found = re.search("|".join(map(re.escape, parts)), text, re.IGNORECASE) if parts else None
    if found is None:
        return text[:100]
    start, end = max(0, found.start() - _NEAR), found.end() + _NEAR
    before, behind = "…" * (start > 0) + text[start : found.start()], text[found.end() : end] + "…" * (end < len(text))
    return f"{before}{_OPEN}{found[0]}{_CLOSE}{behind}"


def _parts(snippet: str) -> tuple[tuple[str, bool], ...]:
    # Split at a pattern with a group, every second piece is what the group matched.
    pieces = _MARKED.split(snippet)
    return tuple((piece, place % 2 == 1) for place, piece in enumerate(pieces) if piece)
