"""Text with the places where the spelling of a mark is plain text, and the tokens of such a text.

What a person, a file or a tool says is text, also where it is spelled like `<|im_end|>`. No token of a mark ever comes
from it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from models.base import Vocab
from models.text.marks import KNOWN_MARKS, Marks, Span


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text; what is spelled like a mark in it is one, but for some places."""

    text: str
    literal: tuple[Span, ...] = ()
    """Places with the spelling of a mark that are plain text, from left to right."""

    def __add__(self, other: "MarkedText") -> "MarkedText":
        size = len(self.text)
        more = ((start + size, end + size) for start, end in other.literal)
        return MarkedText(self.text + other.text, (*self.literal, *more))

    def after(self, size: int) -> "MarkedText":
        """Return what follows the first `size` characters."""
        left = tuple((max(0, start - size), end - size) for start, end in self.literal if end > size)
        return MarkedText(self.text[size:], left)

    def ends_with_mark(self, mark: str) -> bool:
        """Return whether a mark at the end is a mark, not text."""
        start = len(self.text) - len(mark)
        return self.text.endswith(mark) and all(end <= start for _, end in self.literal)


class TextReader:
    """Turns texts into tokens."""

    def __init__(self, vocab: Vocab, marks: Marks) -> None:
        """Take a vocabulary and its marks."""
        self.marks = marks
        self._vocab = vocab
        # SentencePiece puts a blank before each text.
        self._adds_space = self._bytes_of(vocab.tokenize("a", special=False)).startswith(b" ")
        self._strips: dict[tuple[str, str], bool] = {}

    def tokens(self, marked: MarkedText, *, goes_on: bool = False) -> list[int]:
        """Return the tokens of a text, or, where it `goes_on`, of one that others come before."""
        if not marked.literal:
            return self._tokens(marked.text, special=True, goes_on=goes_on)
        found: list[int] = []
        for place, (piece, is_text) in enumerate(self._stretches(marked)):
            follows = goes_on and place == 0
            found += (
                self.plain(piece, goes_on=follows) if is_text else self._tokens(piece, special=True, goes_on=follows)
            )
        return found

    def plain(self, text: str, *, goes_on: bool = False) -> list[int]:
        """Return the tokens of a text in which nothing is a mark."""
        tokens = self._tokens(text, special=False, goes_on=goes_on)
        if self.marks.ids.isdisjoint(tokens):
            return tokens
        # Tokens that the makers added, and merges of SentencePiece, spell marks even so: not in two pieces.
        cuts = [0, *(start + 1 for start, _ in self.marks.find(text)), len(text)]
        tokens = self._in_pieces(text, cuts, goes_on=goes_on)
        if self.marks.ids.isdisjoint(tokens):
            return tokens
        return self._in_pieces(text, range(len(text) + 1), goes_on=goes_on)

    def spelled(self, answer: str, emitted: Sequence[int]) -> tuple[Span, ...]:
        """Return where an answer spells out a mark as plain text, given the tokens that have its bytes.

        Not of thoughts and calls: templates write their marks again where the model spelled them.
        """
        real, size = set(), 0
        for token in emitted:
            if token in self.marks.ids:
                real.add(size)
            size += len(self._vocab.piece(token))
        return tuple(
            (start, end)
            for start, end in self.marks.find(answer)
            if answer[start:end] not in KNOWN_MARKS and len(answer[:start].encode()) not in real
        )

    def _in_pieces(self, text: str, cuts: Sequence[int], *, goes_on: bool) -> list[int]:
        found: list[int] = []
        for start, end in pairwise(cuts):
            found += self._tokens(text[start:end], special=False, goes_on=goes_on or start > 0)
        return found

    def _tokens(self, text: str, *, special: bool, goes_on: bool) -> list[int]:
        """Return tokens; those of a text that goes on without the blank that a vocabulary puts before a first.

        So it is read as the second line of a text, and the tokens of the line before it are left out.
        """
        if goes_on and self._adds_space:
            tokens = self._vocab.tokenize(f"\n{text}", special=special)
            for place in (1, 2):
                if self._bytes_of(tokens[:place]) == b" \n":
                    return tokens[place:]
        return self._vocab.tokenize(text, special=special)

    def _stretches(self, marked: MarkedText) -> Iterator[tuple[str, bool]]:
        """Yield the text in pieces, and whether each is text alone.

        Only between marks may a text be cut: there the tokenizer cuts it too.
        """
        text, blanked, literal = marked.text, _blanked(marked), list(marked.literal)
        run = start = 0
        before = ""
        for begins, ends in (*self.marks.find(blanked), (len(text), len(text))):
            if literal and literal[0][0] < begins:
                if run < start:
                    yield text[run:start], False
                yield self._stripped(text[start:begins], before, text[begins:ends]), True
                run = begins
                literal = [span for span in literal if span[0] >= begins]
            start, before = ends, text[begins:ends]
        if run < len(text):
            yield text[run:], False

    def _stripped(self, piece: str, before: str, after: str) -> str:
        """Return a piece without the blanks that the marks beside it take away, as some do."""
        if before and self._takes(before, f"{before} "):
            piece = piece.lstrip()
        return piece.rstrip() if after and self._takes(after, f" {after}") else piece

    def _takes(self, mark: str, beside_blank: str) -> bool:
        key = mark, beside_blank
        if key not in self._strips:
            self._strips[key] = self._vocab.tokenize(mark) == self._vocab.tokenize(beside_blank)
        return self._strips[key]

    def _bytes_of(self, tokens: Sequence[int]) -> bytes:
        return b"".join(self._vocab.piece(token) for token in tokens)


def _blanked(marked: MarkedText) -> str:
    """Return a text of equal length in which only marks have the spelling of marks."""
    parts: list[str] = []
    place = 0
    for start, end in marked.literal:
        parts += marked.text[place:start], "\0" * (end - start)
        place = end
    return "".join((*parts, marked.text[place:]))
