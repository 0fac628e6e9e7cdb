"""Placeholders for outside text in a chat template, so that it can't become part of a mark.

Each sign that a mark could begin or end with is replaced by a character that no text has, before the template is
rendered, and put back afterwards. So a mark in the rendered text was written by the template, however it joins or cuts
its texts.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from models.errors import UsageError
from models.text.marked_text import MarkedText
from models.text.marks import Marks, Span

_SPARE = (range(0x30000, 0x3134B), range(0x20000, 0x2A6E0), range(0xF0000, 0x110000))
"""Characters that stand in for others, those first that Python writes as they are: rare ideographs, private ones."""
_MAY_BE_SPARE = re.compile(f"[{chr(0x20000)}-{chr(0x10FFFF)}]")
_SCHEMA_WORDS = frozenset(
    (
        *(
            "type",
            "properties",
            "description",
            "required",
            "enum",
            "items",
            "default",
            "name",
            "parameters",
            "function",
        ),
        *("title", "format", "anyOf", "oneOf", "allOf", "string", "number", "integer", "boolean", "object", "array"),
        "null",
    )
)
"""Words of JSON schemas, which templates ask for by name."""


class Placeholders:
    """Placeholders for one rendering."""

    def __init__(self, marks: Marks, kept: Iterable[str] = (), used: Iterable[str] = ()) -> None:
        """Take the marks, spellings that the template itself looks for, and all texts that there are."""
        self._marks = marks
        self._kept = _any_of(kept)
        signs = "".join(map(re.escape, sorted(marks.edges)))
        bare = map(re.escape, sorted(marks.bare, key=len, reverse=True))
        self._hidden = re.compile("|".join((*bare, *([f"[{signs}]"] if signs else []))) or r"(?!)")
        taken = {character for text in used for character in _MAY_BE_SPARE.findall(text)}
        self._spare = (chr(code) for code in chain(*_SPARE) if chr(code) not in taken)
        self._of: dict[str, str] = {}
        self.characters: dict[int, str] = {}
        """Text for each placeholder, by its code point."""

    def hide(self, text: str) -> str:
        """Return a text with placeholders, as many characters as it had."""
        if text.strip() in self._marks.inner:
            return self._replaced(text)
        parts = [text] if self._kept is None else self._kept.split(text)
        hidden = self._hidden.sub
        return "".join(
            part if place % 2 else hidden(lambda found: self._replaced(found[0]), part)
            for place, part in enumerate(parts)
        )

    def hide_in(self, value: Any) -> Any:
        """Return a value of JSON with placeholders in its texts and keys."""
        if isinstance(value, str):
            return value if value in _SCHEMA_WORDS else self.hide(value)
        if isinstance(value, Mapping):
            return {self.hide_in(key): self.hide_in(inner) for key, inner in value.items()}
        return [self.hide_in(inner) for inner in value] if isinstance(value, list | tuple) else value

    def reveal(self, rendered: str) -> MarkedText:
        """Return the rendered text without placeholders, and the places where the spelling of a mark is plain text."""
        text = rendered.translate(self.characters) if self.characters else rendered
        if text == rendered:
            return MarkedText(text)
        literal: list[Span] = []
        start = 0
        for begins, ends in (*self._marks.find(rendered), (len(text), len(text))):
            literal += self._marks.find(text, start, begins)
            start = ends
        return MarkedText(text, tuple(literal))

    def _replaced(self, text: str) -> str:
        return "".join(character if character.isspace() else self._placeholder(character) for character in text)

    def _placeholder(self, character: str) -> str:
        if (found := self._of.get(character)) is None:
            found = next(self._spare, None)
            if found is None:
                raise UsageError("The text has too many different rare characters.", hint="Ask about less of it.")
            self._of[character] = found
            self.characters[ord(found)] = character
        return found


class NoPlaceholders(Placeholders):
    """Leaves texts as they are: what is spelled like a mark becomes one."""

    def __init__(self) -> None:
        """Take nothing."""
        super().__init__(Marks(()))

    def hide(self, text: str) -> str:
        """Return the same text."""
        return text


def _any_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted(set(texts), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})") if longest_first else None
