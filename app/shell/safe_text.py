"""Text made safe for a line, a terminal and a database: titles, and control characters made visible."""

import re
import unicodedata

_LONGEST_TITLE = 60
_JOINERS = "\u200c\u200d"
"""They have no width of their own, but Persian words and many emoji fall apart without them."""
_OBEYED = ("Cc", "Cf", "Cs")
"""Kinds of characters that do something, or are none. Icons of a font, and what is newer than Python, are but drawn."""
_UNTITLED = "Untitled"
_ODD = re.compile(r"[^\n\t -~]")
_SEPARATORS = str.maketrans({"\u2028": "\u2424", "\u2029": "\u2424"})


def title_of(text: str) -> str:
    """Return the first line that has a word in it, cut between words at some 60 characters."""
    lines = (one_line(line) for line in text.splitlines())
    line = next((line for line in lines if any(map(str.isalnum, line))), _UNTITLED)
    if len(line) <= _LONGEST_TITLE:
        return line
    cut = line[: _LONGEST_TITLE - 1]
    # A first word longer than a title is cut through.
    whole = cut if line[len(cut)] == " " else cut.rsplit(" ", 1)[0]
    return whole.rstrip(" ,;:-") + "…"


def one_line(text: str) -> str:
    """Return a text on one line: white space is single spaces, control characters are gone."""
    kept = "".join(character for character in text if character.isspace() or _is_harmless(character))
    return " ".join(kept.split())


def visible(text: str) -> str:
    """Return a text whose control characters are shown and not obeyed; line ends and tabs stay."""
    return "".join(c if c in "\n\t" or _is_harmless(c) else _picture(c) for c in text)


def shown(text: str) -> str:
    """Return a text in which nothing moves the cursor but line ends and tabs; what else would is a sign for it."""
    # Nearly all text is plain, and a look at each character of a long chat takes long.
    if not _ODD.search(text):
        return text
    return visible(text.replace("\r\n", "\n")).translate(_SEPARATORS)


def storable(text: str) -> str:
    """Return a text that is valid Unicode: a terminal can hand in bytes that are none."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _is_harmless(character: str) -> bool:
    return unicodedata.category(character) not in _OBEYED or character in _JOINERS


def _picture(character: str) -> str:
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"
