"""Bodies of a transcript's pieces: each is drawn at a width, and estimates its height before that."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

from rich.cells import get_character_cell_size
from rich.segment import Segment
from rich.style import Style

from app.shell.safe_text import shown
from app.ui.drawing.marks import Mark, mark_style
from app.ui.drawing.wrapping import Line, plain_lines, wrap
from app.ui.transcript.blocks import Block
from app.ui.transcript.code_lines import CodeLines
from app.ui.transcript.look import Look

_CODE_SIGNS = ("```", "~~~", "    ")


class Body(Protocol):
    """The content of a piece."""

    @property
    def may_have_code(self) -> bool:
        """Whether it is worth looking for code blocks in it."""
        ...

    def lines(self, width: int, look: Look) -> list[Line]:
        """Return the lines, each at most that many cells wide."""
        ...

    def proposal(self, width: int) -> int:
        """Return about how many lines there will be."""
        ...


class PlainBody:
    """Text as it stands, in the style of the look's part of that name."""

    may_have_code = False

    def __init__(self, text: str, part: str = "", *, words: bool = True) -> None:
        """Take a text that has gone through `shown`."""
        self._text, self._part, self._words = text, part, words

    def lines(self, width: int, look: Look) -> list[Line]:
        """Return the text, wrapped."""
        style = getattr(look, self._part) if self._part else Style.null()
        return plain_lines(self._text, width, style, words=self._words)

    def proposal(self, width: int) -> int:
        """Return about how many lines there will be."""
        return _proposal(self._text, width)


class BlockBody:
    """A block of an answer."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._code: CodeLines | None = None
        self._code_for: tuple[int, Look] | None = None

    @property
    def may_have_code(self) -> bool:
        """Whether it is code, or may have some in a list or a quote."""
        return self.block.code is not None or any(sign in self.block.source for sign in _CODE_SIGNS)

    def grow(self, block: Block) -> None:
        """Replace the block by a longer version of it, or by another one."""
        self.block = block

    def lines(self, width: int, look: Look) -> list[Line]:
        """Return the block, drawn."""
        if self.block.code is None:
            # The first picture has no Markdown, and does not wait for what draws it.
            from app.ui.transcript.markdown_lines import markdown_lines

            return markdown_lines(self.block, width, look)
        if self._code is None or self._code.language != self.block.language or self._code_for != (width, look):
            self._code, self._code_for = CodeLines(self.block.language, look, width), (width, look)
        return self._code.lines(self.block.code, is_open=self.block.is_open)

    def proposal(self, width: int) -> int:
        """Return about how many lines there will be."""
        return _proposal(self.block.source, width)


class TokenBody:
    """Raw text whose every token has the style of its mark."""

    may_have_code = False

    def __init__(self, text: str, ends: Sequence[int], marks: Sequence[Mark]) -> None:
        """Take raw text of the model, the end of each token in it, and the tokens' marks.

        Ends may lie outside the text; what follows the last has no mark.
        """
        # Every character must keep its place, so a carriage return may not vanish into a line end.
        self._text = shown(text.replace("\r", "\u240d"))
        self._ends, self._marks = ends, marks

    def lines(self, width: int, look: Look) -> list[Line]:
        """Return the text, wrapped."""
        made: list[Line] = []
        starts = accumulate((len(line) + 1 for line in self._text.split("\n")), initial=0)
        for line, offset in zip(self._text.split("\n"), starts, strict=False):
            flat = line.replace("\t", " ")
            made += [self._segments(offset + start, offset + end, look) for start, end in wrap(flat, width)]
        return made

    def proposal(self, width: int) -> int:
        """Return about how many lines there will be."""
        return _proposal(self._text, width)

    def _segments(self, start: int, end: int, look: Look) -> Line:
        segments: Line = []
        at = bisect_right(self._ends, start)
        while start < end:
            stop = min(end, self._ends[at]) if at < len(self._ends) else end
            stop = self._whole(stop, end)
            style = mark_style(self._marks[at], look.palette) if at < len(self._marks) else Style.null()
            segments += [Segment(self._text[start:stop].replace("\t", " "), style)] if stop > start else []
            start, at = max(start, stop), at + 1
        return segments

    def _whole(self, stop: int, end: int) -> int:
        """Move the end of a token to the end of what is one sign on the screen."""
        text = self._text
        while stop < end and (not get_character_cell_size(text[stop]) or text[stop - 1] == "\u200d"):
            stop += 1
        return stop


def _proposal(text: str, width: int) -> int:
    return sum(1 + len(line) // width for line in text.split("\n"))
