"""Lines of a code block: padded, highlighted, cut at the width, and cheap to extend."""

from collections.abc import Iterator
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Text, Whitespace, _TokenType
from pygments.util import ClassNotFound
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax

from app.ui.drawing.patience import at_most
from app.ui.drawing.wrapping import Line, expand, wrap
from app.ui.transcript.look import Look

MARK = "code"
"""Key in the meta of a block's first line, for jumps from block to block."""
_LONGEST = 30_000
"""Characters of a block that is still highlighted."""
_PATIENCE = 1.0
"""Seconds of work after which a block, and all others of its language, are no more highlighted."""
_TOO_SLOW: set[str] = set()
"""The languages that this has happened to."""
_TAIL = 4
"""Lines of a growing block that are highlighted again each time."""
_Pieces = list[tuple[str, Style]]


class CodeLines:
    """One code block at one width; while it grows, only its last lines are highlighted anew."""

    def __init__(self, language: str, look: Look, width: int) -> None:
        """Take the first word after the fence, a look, and cells, of which there must be at least 3."""
        self.language, self._look, self._width = language, look, width
        self._settled: list[Line] = []
        self._prefix = ""
        """Source of the finished lines."""

    def lines(self, code: str, *, is_open: bool = False) -> list[Line]:
        """Return the block's lines, each exactly as wide as the block; `code` has gone through `shown`."""
        code = expand(code.removesuffix("\n"))
        if not is_open or not code.startswith(self._prefix):
            self._settled, self._prefix = [], ""
        fresh = self._highlighted(code[len(self._prefix) :])
        if is_open and (count := self._settling(fresh)):
            self._settled += [row for line in fresh[:count] for row in self._rows(line)]
            self._prefix += "".join(piece for line in fresh[:count] for piece in (*(text for text, _ in line), "\n"))
            fresh = fresh[count:]
        return [self._top(), *self._settled, *(row for line in fresh for row in self._rows(line)), self._blank()]

    def _highlighted(self, code: str) -> list[_Pieces]:
        if (tokens := self._tokens(code)) is None:
            return [[(line, self._look.code)] for line in code.split("\n")]
        lines: list[_Pieces] = [[]]
        for kind, text in tokens:
            style = _token_style(self._look, kind)
            first, *others = text.split("\n")
            lines[-1].append((first, style))
            lines += [[(other, style)] for other in others]
        return lines[:-1]

    def _tokens(self, code: str) -> list[tuple[_TokenType, str]] | None:
        """Return the tokens of more code; None where it is shown without colours."""
        lexer = _lexer(self.language) if len(code) + len(self._prefix) <= _LONGEST else None
        if lexer is None or self.language in _TOO_SLOW:
            return None
        try:
            with at_most(_PATIENCE):
                return list(lexer.get_tokens(code + "\n"))
        except TimeoutError:
            _TOO_SLOW.add(self.language)
            return None

    def _settling(self, fresh: list[_Pieces]) -> int:
        """Return how many lines to keep: not the last, and up to one that ends outside a long string or comment."""
        if len(fresh) < 2 * _TAIL:
            return 0
        outside = {_token_style(self._look, kind) for kind in (Text, Whitespace)} | {self._look.code}
        return max((n for n, line in enumerate(fresh[:-_TAIL], 1) if line[-1][1] in outside), default=0)

    def _rows(self, line: _Pieces) -> Iterator[Line]:
        inner = max(1, self._width - 2)
        text = "".join(piece for piece, _ in line)
        for start, end in wrap(text, inner, words=False):
            cells = [Segment(piece, style) for piece, style in _between(line, start, end)]
            rest = max(0, self._width - 1 - cell_len(text[start:end]))
            yield [self._edge(), *cells, Segment(" " * rest, self._look.code)]

    def _top(self) -> Line:
        name = self.language if cell_len(self.language) < self._width - 2 else ""
        mark = self._look.code + self._look.faint + Style.from_meta({MARK: True})
        return [self._edge(), Segment(" " * (self._width - 2 - cell_len(name)) + f"{name} ", mark)]

    def _blank(self) -> Line:
        return [self._edge(), Segment(" " * (self._width - 1), self._look.code)]

    def _edge(self) -> Segment:
        return Segment(self._look.code_edge, self._look.code + self._look.faint)


def warm_up() -> None:
    """Make what the first lines of code need: it takes as long as two rounds of a model, and is better done before."""
    if (lexer := _lexer("python")) is not None:
        list(lexer.get_tokens("pass\n"))


def _between(line: _Pieces, start: int, end: int) -> Iterator[tuple[str, Style]]:
    at = 0
    for text, style in line:
        if piece := text[max(0, start - at) : max(0, end - at)]:
            yield piece, style
        at += len(text)


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False) if language else None
    except ClassNotFound:
        return None


@lru_cache(maxsize=2048)
def _token_style(look: Look, kind: _TokenType) -> Style:
    style = Syntax.get_theme(look.code_theme).get_style_for_token(kind)
    # The theme's own background is for a screen that is all its own.
    kept = Style(color=style.color, bold=style.bold, italic=style.italic, underline=style.underline, dim=style.dim)
    return look.code + kept
