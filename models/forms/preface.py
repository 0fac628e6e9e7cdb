"""Text before the part of an answer that a grammar constrains: the thoughts of a reasoning model."""

from collections.abc import Mapping
from dataclasses import dataclass

from models.base import Vocab
from models.text.after_thoughts import AfterThoughts
from models.text.thoughts import BEGINNINGS, LONGEST_END, end_of_thoughts

_MOST_BLANKS = 2
"""Tokens of blanks between thoughts and answer that are none of the grammar's."""
_BLANKS = ("\n", "\n\n", " ", "\r\n")
_SHORTEST = 6
"""Bytes of a token that begins thoughts; where it is less, a mark is spelled in tokens that begin other texts too."""


@dataclass(frozen=True, slots=True)
class Preface:
    """Text that may precede the grammar."""

    may_think: bool = False
    """True if the answer may begin with thoughts."""
    opening: str = ""
    """The mark of thoughts that the prompt ends with; "" where it ends with none."""

    def after_thoughts(self) -> AfterThoughts:
        """Return what finds the end of the thoughts in the answer's text."""
        return AfterThoughts(self.opening, may_think=self.may_think)

    def reader(self, vocab: Vocab) -> "PrefaceReader":
        """Return the reader that finds where the text before the grammar ends."""
        marks = _marks(vocab) if self.may_think and not self.opening.strip() else {}
        blanks = frozenset(ids[0] for blank in _BLANKS if len(ids := vocab.tokenize(blank, special=False)) == 1)
        return PrefaceReader(vocab, marks, blanks, self.opening.strip())


NO_PREFACE = Preface()


class PrefaceReader:
    """Reader of an answer, token by token, up to where its grammar begins; it can be rewound."""

    def __init__(self, vocab: Vocab, marks: Mapping[int, str], blanks: frozenset[int], opening: str) -> None:
        """Take the tokens that begin thoughts, with the marks that they begin, those of blanks, and a mark begun."""
        self._vocab, self._marks, self._blanks = vocab, marks, blanks
        self._opened = end_of_thoughts(opening) if opening else None
        self._ends = self._opened
        self._text = bytearray()
        self._sizes: list[int] = []
        """Bytes of the thoughts before each token of them, and of blanks after them."""
        self._closed: int | None = None
        """Tokens of the thoughts; None: they go on, or there are none."""
        self._is_over = not marks and self._opened is None

    @property
    def length(self) -> int:
        """Tokens that came before the grammar, up to now."""
        return len(self._sizes)

    @property
    def goes_on(self) -> bool:
        """True until its end: any token may come."""
        return self._ends is not None and self._closed is None

    @property
    def openings(self) -> frozenset[int]:
        """Tokens that may come here beside those of the grammar."""
        if self._is_over or self.goes_on:
            return frozenset()
        if self._closed is None:
            return frozenset(self._marks)
        return self._blanks if self.length - self._closed < _MOST_BLANKS else frozenset()

    def take(self, token: int) -> bool:
        """Read the next token; tell whether it is none of the grammar's."""
        if self._is_over:
            return False
        if not self.goes_on and token not in self.openings:
            self._is_over = True
            return False
        if self._ends is None:
            self._ends = end_of_thoughts(self._marks[token])
        self._sizes.append(len(self._text))
        if self._closed is None:
            self._text += self._vocab.piece(token)
            tail = bytes(self._text[-LONGEST_END - len(self._vocab.piece(token)) :])
            self._closed = self.length if self._ends.search(tail) else None
        return True

    def take_back(self, length: int) -> None:
        """Go back to where the answer had so many tokens."""
        if self._is_over and length > self.length:
            return
        # With none of the grammar's tokens left it is open again whether another blank comes first.
        self._is_over = not self._marks and self._opened is None
        if length < self.length:
            del self._text[self._sizes[length] :]
            del self._sizes[length:]
        if self._closed is not None and length < self._closed:
            self._closed = None
        if length == 0:
            self._ends = self._opened


def _marks(vocab: Vocab) -> Mapping[int, str]:
    """Return the tokens that thoughts begin with, with the marks that they begin."""
    first = {mark: vocab.tokenize(mark)[:1] for mark in BEGINNINGS}
    return {ids[0]: mark for mark, ids in first.items() if ids and len(vocab.piece(ids[0])) >= _SHORTEST}
