"""Lines of one Markdown block, drawn by Rich, with control characters shown and no text hidden."""

from collections.abc import Iterator, Sequence

from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListElement, ListItem, Markdown
from rich.segment import Segment

from app.shell.safe_text import shown
from app.ui.drawing.wrapping import Line, plain_lines
from app.ui.transcript.blocks import Block, markdown_parser
from app.ui.transcript.code_lines import CodeLines
from app.ui.transcript.look import Look, console

_LONGEST = 20_000
"""Characters of a block that is read as Markdown; a longer one is no prose, and could take seconds."""
_NARROWEST = 6
"""Cells that a line in nested lists, or a column of a table, must have left."""
_PARSER = markdown_parser()


def markdown_lines(block: Block, width: int, look: Look) -> list[Line]:
    """Return a block that is no code block as lines of at most that width."""
    tokens = [] if block.too_deep or len(block.source) > _LONGEST else _PARSER.parse(block.source)
    if not tokens or not _fits(tokens, width):
        return plain_lines(block.source, width, look.inline_code)
    if block.number is not None:
        tokens[0].attrs["start"] = block.number
    screen = console(look)
    lines = screen.render_lines(_Drawn(tokens, look), screen.options.update(width=width), pad=False)
    return _trimmed(lines)


def _trimmed(lines: list[Line]) -> list[Line]:
    """Return lines without the blank ones around: how far blocks are apart is not theirs to say."""
    full = [n for n, line in enumerate(lines) if any(map(_is_seen, line))]
    return lines[full[0] : full[-1] + 1] if full else []


def _is_seen(part: Segment) -> bool:
    return bool(part.text.strip() or (part.style and part.style.bgcolor))


class _Drawn(Markdown):
    """Rich's Markdown of parsed tokens, with links, images, lists and code in a shape of their own."""

    inlines = Markdown.inlines | {"a", "url"}

    def __init__(self, tokens: Sequence[Token], look: Look) -> None:
        # Rich's own would make a parser for each, which takes longer than drawing most blocks.
        self.markup, self.justify, self.style, self.hyperlinks = "", None, "none", False
        self.code_theme, self.inline_code_lexer, self.inline_code_theme = look.code_theme, None, look.code_theme
        self.look = look
        self.parsed = [_plain(token) for token in tokens]


class _Code(CodeBlock):
    """A code block within a list or a quote."""

    def __init__(self, language: str, look: Look) -> None:
        super().__init__(language, look.code_theme)
        self._look = look

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> "_Code":
        """Return the element for a token."""
        assert isinstance(markdown, _Drawn)
        return cls(token.info.split(maxsplit=1)[0] if token.info.strip() else "", markdown.look)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the block's lines."""
        for line in CodeLines(self.lexer_name, self._look, options.max_width).lines(str(self.text)):
            yield from line
            yield Segment.line()


class _Heading(Heading):
    """A heading at the left, where a narrow screen has it too."""

    def __rich_console__(self, _: Console, __: ConsoleOptions) -> RenderResult:
        """Yield its text."""
        yield self.text


class _List(ListElement):
    """A list whose items are drawn one by one: none needs to know how many there are."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the items."""
        is_bullet, first = self.list_type == "bullet_list_open", self.list_start or 0
        for number, item in enumerate(self.items, first):
            sign = " • " if is_bullet else f"{number}. ".rjust(4)
            yield from _item(item, sign, "bullet" if is_bullet else "number", console, options)


def _item(item: ListItem, sign: str, kind: str, console: Console, options: ConsoleOptions) -> RenderResult:
    style = console.get_style(f"markdown.item.{kind}")
    narrower = options.update(width=options.max_width - len(sign))
    lines = console.render_lines(item.elements, narrower, style=item.style, pad=False) or [[]]
    for line in lines:
        yield Segment(sign, style)
        yield from line
        yield Segment.line()
        sign = " " * len(sign)


_Drawn.elements = {
    **Markdown.elements,
    "fence": _Code,
    "code_block": _Code,
    "heading_open": _Heading,
    "bullet_list_open": _List,
    "ordered_list_open": _List,
}


def _plain(token: Token) -> Token:
    """Return a token whose text can't move a cursor: an entity may stand for any character."""
    token.content = shown(token.content)
    if token.children:
        token.children = list(_spelled_out(token.children))
    return token


def _spelled_out(children: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens of a line of text, with the addresses of its links and images as text."""
    address, label = "", ""
    for token in children:
        if token.type == "link_open":
            address, label = shown(str(token.attrs["href"])), ""
            yield Token("styled", "a", 1)
        elif token.type == "link_close":
            yield Token("styled", "a", -1)
            yield from _address(address) if label != address.removeprefix("mailto:") else ()
        elif token.type == "image":
            yield Token("text", "", 0, content=shown(f"![{token.content}]({token.attrs['src']})"))
        else:
            label += token.content
            yield _plain(token)


def _address(address: str) -> Iterator[Token]:
    yield Token("styled", "url", 1)
    yield Token("text", "", 0, content=f" ({address})")
    yield Token("styled", "url", -1)


def _fits(tokens: Sequence[Token], width: int) -> bool:
    """Return whether there is room for lists within lists, and for the columns of a table."""
    columns = sum(token.type == "th_open" for token in tokens)
    depth = max((token.level for token in tokens if token.type != "inline"), default=0)
    return columns * (_NARROWEST - 1) <= width and (depth < 2 or width - 2 * depth >= _NARROWEST)
