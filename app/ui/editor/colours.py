"""Syntax colours of the editor, computed line by line down to the last line shown, and again after an edit."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import Text, _TokenType
from pygments.util import ClassNotFound
from rich.style import Style
from rich.syntax import Syntax

from app.ui.drawing.patience import at_most

_BACK = 200
"""Lines to look back for a place at which nothing is open, such as a string of several lines."""
COLOURED = 1_000
"""Characters of a line that are coloured: of data in one line there is no end."""
_AHEAD = 2_000
"""Lines that are handed to a lexer at once; it works on as many as are asked for."""
_PATIENCE = 1.0
"""Seconds of work for the colours of a line, of which there are none then."""
Span = tuple[int, int, _TokenType]
"""First and last column of a token in its line, and its kind."""


class Colours:
    """Knows the tokens of the lines that were looked at, as long as nothing above them changes."""

    def __init__(self, filename: str) -> None:
        """Take the name that tells the language."""
        self._lexer = _lexer(filename)
        self._top = 0
        self._lines: list[list[Span]] = []
        """Those of the lines from the top on."""
        self._coming: Iterator[list[Span]] = iter(())

    def of(self, index: int, lines: Sequence[str]) -> list[Span]:
        """Return the tokens of a line, of all lines as they are now."""
        if self._lexer is None:
            return []
        try:
            return self._read(self._lexer, index, lines)
        except TimeoutError:
            # Some take twice as long, or four times, for each backslash in a string that they can't find the end of.
            self._lexer = None
            return []

    def _read(self, lexer: Lexer, index: int, lines: Sequence[str]) -> list[Span]:
        if not self._top <= index <= self._top + len(self._lines) + _BACK:
            self._begin(index, lines)
        while (have := self._top + len(self._lines)) <= index:
            with at_most(_PATIENCE):
                if (spans := next(self._coming, None)) is None:
                    self._coming = _lexed(lexer, lines[have : have + _AHEAD])
                    spans = next(self._coming)
            self._lines.append(spans)
        return self._lines[index - self._top]

    def edited(self, row: int) -> None:
        """Forget the lines from a changed one on, and from where its tokens may have begun."""
        kept = min(max(0, row - self._top), len(self._lines))
        least = max(0, kept - _BACK)
        while kept > least and not self._is_closed(kept):
            kept -= 1
        # Tokens so far above are not needed again.
        del self._lines[kept if kept > least else 0 :]
        self._coming = iter(())

    def _is_closed(self, count: int) -> bool:
        """Return whether nothing is open after so many of the known lines, as far as the last token tells."""
        *_, (_, _, line_end) = self._lines[count - 1]
        # A type contains those below it.
        return line_end in Text  # type: ignore[comparison-overlap]

    def _begin(self, index: int, lines: Sequence[str]) -> None:
        first = max(0, index - _BACK)
        # A line that begins at the margin is seldom inside of anything.
        self._top = next((row for row in range(first, index) if lines[row][:1].strip()), first)
        self._lines, self._coming = [], iter(())


@lru_cache(maxsize=1024)
def token_style(code_theme: str, kind: _TokenType) -> Style:
    """Return how a token looks: its colour and weight; slanted and faint is what is proposed, and nothing else."""
    style = Syntax.get_theme(code_theme).get_style_for_token(kind)
    return Style(color=style.color, bold=style.bold, underline=style.underline)


def _lexed(lexer: Lexer, lines: Sequence[str]) -> Iterator[list[Span]]:
    """Yield the tokens of each line."""
    found: list[Span] = []
    column = 0
    for _, kind, text in lexer.get_tokens_unprocessed("\n".join(line[:COLOURED] for line in lines) + "\n"):
        for place, part in enumerate(text.split("\n")):
            if place:
                found.append((column, column + 1, kind))
                yield found
                found, column = [], 0
            if part:
                found.append((column, column + len(part), kind))
                column += len(part)


@lru_cache(maxsize=8)
def _lexer(filename: str) -> Lexer | None:
    try:
        lexer = get_lexer_for_filename(filename)
    except ClassNotFound:
        return None
    return None if isinstance(lexer, TextLexer) else lexer
