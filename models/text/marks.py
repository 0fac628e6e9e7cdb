"""Marks, the spellings of tokens that give a prompt its structure, such as `<|im_end|>` or `<think>`.

Owns which tokens of a vocabulary are marks, and where a text has their spellings. What a mark means is known elsewhere.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from models.base import Vocab
from models.text.fim_markers import FAMILIES, SEPARATORS
from models.text.thoughts import CONTROL_MARKS
from models.text.tool_calls import TOOL_MARKS

Span = tuple[int, int]
"""Start and end in a text, the end excluded."""
KNOWN_MARKS = frozenset((*CONTROL_MARKS, *TOOL_MARKS, *chain(*FAMILIES), *SEPARATORS))
_BARRED = re.compile(r"<[|｜].*[|｜]>|\[/?[A-Z_]+\]", re.DOTALL)  # noqa: RUF001 - DeepSeek's marks have wide bars
"""Spellings that nothing but a mark has."""
_BRACKETED = re.compile(r"[<\[].*[>\]]", re.DOTALL)


class Marks:
    """A set of marks, and where they occur in texts."""

    def __init__(self, spellings: Iterable[str] = KNOWN_MARKS, ids: Iterable[int] = ()) -> None:
        """Take the spellings, and the tokens that text must never become."""
        self._spellings = frozenset(spelling for spelling in spellings if spelling)
        self.ids = frozenset(ids)
        self.edges = frozenset(filter(_is_sign, chain.from_iterable((m[0], m[-1]) for m in self._spellings)))
        """Signs that marks begin or end with; without them a text has no part in any mark but those of `bare`."""
        self.bare = tuple(mark for mark in self._spellings if not self.edges.intersection((mark[0], mark[-1])))
        """Marks of letters and digits alone."""
        self.inner = frozenset(chain.from_iterable(map(_inner, self._spellings)))
        """Text between the signs of each mark, such as "im_end"."""
        self._sizes: dict[str, list[int]] = {}
        for mark in sorted(self._spellings, key=len, reverse=True):
            sizes = self._sizes.setdefault(mark[0], [])
            sizes += [len(mark)] if len(mark) not in sizes else []
        # A text that no mark begins in is looked through by the regular expression alone.
        self._first = re.compile(f"[{''.join(map(re.escape, self._sizes))}]") if self._sizes else re.compile(r"(?!)")

    @classmethod
    def of(cls, vocab: Vocab, template: str = "") -> "Marks":
        """Return the marks of a vocabulary.

        Those are all control tokens, and of the tokens that its makers added the ones that are known, that the chat
        template writes, or that look like nothing else. Others, such as runs of blanks, are text.
        """
        spellings, ids = set(KNOWN_MARKS), set()
        for added in vocab.added_tokens():
            spelling = added.spelling
            if not added.is_control and not (spelling in KNOWN_MARKS or _is_mark(spelling, template)):
                continue
            # SentencePiece spells a blank so.
            spellings |= {spelling, spelling.replace("▁", " ")}
            if not added.is_unknown:
                ids.add(added.token)
        return cls((spelling for spelling in spellings if spelling.strip()), ids)

    def find(self, text: str, start: int = 0, end: int | None = None) -> list[Span]:
        """Return the places of marks in a part of a text, from left to right, the longest of those at one place."""
        found: list[Span] = []
        end = len(text) if end is None else end
        while match := self._first.search(text, start, end):
            start = match.start()
            size = next((size for size in self._sizes[match[0]] if self._is_at(text, start, start + size, end)), 0)
            found += [(start, start + size)] * bool(size)
            start += size or 1
        return found

    def touches(self, text: str) -> bool:
        """Return whether a text holds a mark, lies in one, or may share characters with one beside it."""
        # A mark can't hold a zero: the engine's spellings end there.
        every = "\0".join(("", *self._spellings, ""))
        ends = (f"{text[:size]}\0" for size in range(1, len(text) + 1))
        begins = (f"\0{text[place:]}" for place in range(len(text)))
        return bool(self.find(text)) or any(part in every for part in (text, *ends, *begins))

    def _is_at(self, text: str, start: int, stop: int, end: int) -> bool:
        return stop <= end and text[start:stop] in self._spellings


def _is_mark(spelling: str, template: str) -> bool:
    if _BARRED.fullmatch(spelling):
        return True
    return bool(_BRACKETED.fullmatch(spelling)) and spelling in template


def _is_sign(character: str) -> bool:
    return not character.isalnum() and not character.isspace()


def _inner(mark: str) -> Sequence[str]:
    """Return the names that a template may put its own signs around to write a mark."""
    signs = [place for place, character in enumerate(mark) if character.isalnum()]
    if not signs:
        return ()
    bare = mark[signs[0] : signs[-1] + 1]
    return tuple({bare, mark[1:-1].strip(), mark[signs[0] : -1].strip()} - {mark, ""})
