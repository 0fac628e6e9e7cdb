"""Markdown as text: some words of an answer, without the signs that nobody sees where it is shown whole.

The words are cut out of their surroundings, in which a parser would look for what a sign belongs to.
"""

import re


def _around(sign: str) -> re.Pattern[str]:
    # What is multiplied has blanks or letters at both sides of the sign.
    return re.compile(rf"(?<!\w)({sign})(?=\S)([^\n]*?\S)\1(?!\w)")


_SIGNS = (
    # Fences, the line below the head of a table; then headings, quotes and items.
    (re.compile(r"^ *(?:`{3,}|~{3,})[^\n`]*$", re.MULTILINE), ""),
    (re.compile(r"^[ |:-]*---[ |:-]*$", re.MULTILINE), ""),
    (re.compile(r"^ *(?:#{1,6}|>|[-*+]) +(?=\S)", re.MULTILINE), ""),
    (re.compile(r"!?\[([^\]\n]*)\]\([^()\s]*\)"), r"\1"),
    (_around(r"\*{2,3}|~~"), r"\2"),
    (_around(r"\*"), r"\2"),
    # The other half may not be among the words.
    (re.compile(r"(?<!\S)\*\*(?=\S)|(?<=\S)\*\*(?=[\s.,:;!?)…]|\Z)"), ""),
    (re.compile("`+"), ""),
)


def without_signs(text: str) -> str:
    """Return a text without the signs of Markdown."""
    for sign, stays in _SIGNS:
        text = sign.sub(stays, text)
    return text
