"""Removal of Markdown signs from an excerpt.

An excerpt lacks the surroundings that a Markdown parser needs to pair signs.
"""

import re


def _around(sign: str) -> re.Pattern[str]:
    # A multiplication sign has blanks, or letters, on both sides.
    return re.compile(rf"(?<!\w)({sign})(?=\S)([^\n]*?\S)\1(?!\w)")


_SIGNS = (
    # Fences, the line below a table's head; then headings, quotes and items.
    (re.compile(r"^ *(?:`{3,}|~{3,})[^\n`]*$", re.MULTILINE), ""),
    (re.compile(r"^[ |:-]*---[ |:-]*$", re.MULTILINE), ""),
    (re.compile(r"^ *(?:#{1,6}|>|[-*+]) +(?=\S)", re.MULTILINE), ""),
    (re.compile(r"!?\[([^\]\n]*)\]\([^()\s]*\)"), r"\1"),
    (_around(r"\*{2,3}|~~"), r"\2"),
    (_around(r"\*"), r"\2"),
    # The other half of a pair may be outside the excerpt.
    (re.compile(r"(?<!\S)\*\*(?=\S)|(?<=\S)\*\*(?=[\s.,:;!?)…]|\Z)"), ""),
    (re.compile("`+"), ""),
)


def without_signs(text: str) -> str:
    """Return a text without Markdown signs."""
    for sign, stays in _SIGNS:
        text = sign.sub(stays, text)
    return text
