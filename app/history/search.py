"""Full-text search: all words must occur in one message; the best match first, with the words marked."""

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
_MARKS = re.compile(rf"(?<![^\W_])(?:{'|'.join(MARK_WORDS)})(?![^\W_])|\*", re.IGNORECASE)
"""What may find the marks around thoughts: one of their words, or the beginning of any."""
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
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as pieces:
        pieces.execute(_PIECES)
        return [
            Hit(Conversation(*about), entry, role, created, _parts(_excerpt(pieces, said, settings, text)))
            for *about, entry, role, created, said, settings in _rows(store, pieces, text, limit)
        ]


def to_query(text: str) -> str:
    """Return what a person typed as an FTS5 query in which nothing but our own quotes and stars is an operator."""
    terms = _terms(text)
    if not terms:
        raise UsageError(f"There is no word in '{text}'.", hint="Give the words to search for.")
    return " ".join(terms)


def _rows(store: Store, pieces: sqlite3.Connection, text: str, limit: int) -> Iterable[tuple[Any, ...]]:
    """Return what was found; the marks around thoughts, which the index has and nobody sees, are not."""
    if not _MARKS.search(text):
        return store.rows(*_query(text, limit))
    shown = (row for row in store.rows(*_query(text, -1)) if _is_shown(pieces, row[-2], row[-1], text))
    return islice(shown, limit) if limit >= 0 else shown


def _is_shown(pieces: sqlite3.Connection, said: str, settings: str | None, wanted: str) -> bool:
    """Tell whether all words are in what is shown of a message."""
    shown, words = _shown(said, settings), _words_query(wanted)
    if shown == said or not words:
        return True
    pieces.execute("DELETE FROM piece")
    pieces.execute("INSERT INTO piece (text) VALUES (?)", (shown,))
    return pieces.execute("SELECT 1 FROM piece WHERE piece MATCH ?", (words,)).fetchone() is not None


def _query(text: str, limit: int) -> tuple[str, Sequence[str | int]]:
    """Return what finds the messages: the index, or, where it does not know the words, a look at each of them."""
    parts = _parts_wanted(text)
    if not parts:
        return _SEARCH, (to_query(text), limit)
    words = _words_query(text)
    conditions = [_HAS_PART] * len(parts) + [_HAS_WORDS] * bool(words)
    return _LOOK % " AND ".join(conditions), [*parts, *[words] * bool(words), limit]


def _words_query(text: str) -> str:
    """Return what finds the words that the index knows."""
    return " ".join(_quoted(word) for word in _words(text) if not _UNSPACED.search(word))


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
    snippet = _snippet(pieces, _shown(text, settings), wanted)
    return snippet if settings is None else without_signs(snippet)


def _shown(text: str, settings: str | None) -> str:
    """Return a message without the marks around thoughts; `settings` are those of an answer."""
    if settings is None:
        return text
    parts = divided(text, divides=divides(json.loads(settings)))
    return "\n\n".join(filter(None, (parts.thoughts, parts.said)))


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
