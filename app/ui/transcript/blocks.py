"""Markdown split into independent blocks, so that a long answer is drawn one block at a time.

A block is a paragraph, a heading, a quote, a table, a code block or one item of a list, always of the top level: none
changes what another means. Link definitions are not a thing here: a model's `[1]: https://...` is shown as it stands.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The first picture has no Markdown, and does not wait for its parser.
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_DEEPEST = 20
"""Nesting of lists and quotes that is read; the parser would drop what is deeper."""
_CODE = frozenset({"fence", "code_block"})


def markdown_parser() -> "MarkdownIt":
    """Return a parser of Markdown with tables and strikethrough, in which HTML is text."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    return parser.enable(["strikethrough", "table"]).disable("reference")


@cache
def _blocks_only() -> "MarkdownIt":
    # What stands within a block doesn't matter for where it ends, and takes half of the time.
    return markdown_parser().disable("inline")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of an answer that is drawn by itself."""

    source: str
    """Whole lines of the answer, without a last line end."""
    code: str | None = None
    """Content of a code block; None for any other block."""
    language: str = ""
    """First word after the fence."""
    number: int | None = None
    """Of a list's item, whatever is written in front of it; None for anything else."""
    follows: bool = False
    """Whether it goes on with a list, and so stands right below the block before it."""
    is_open: bool = False
    """Whether it is code of which more may be said."""
    too_deep: bool = False
    """Whether it is nested more deeply than can be drawn."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A block, and the line it begins at."""

    block: Block
    start: int


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a whole answer that has gone through `shown`."""
    return [found.block for found in _found(text, None)]


def code_blocks_of(text: str) -> list[str]:
    """Return what stands in each code block, without its last line end; also of those in lists and quotes."""
    return [token.content.removesuffix("\n") for token in _blocks_only().parse(text) if token.type in _CODE]


class Growing:
    """An answer that is still being said: blocks that are certain, and the last, which are not."""

    def __init__(self) -> None:
        self._tail = ""
        self._next: int | None = None
        """Number of the list's item that the tail begins with, when it begins within a list."""

    def feed(self, text: str) -> None:
        """Take more of the answer, which has gone through `shown`."""
        self._tail += text

    def take(self) -> tuple[list[Block], list[Block]]:
        """Return the blocks that have become certain since the last call, then those that are still open."""
        found = _found(self._tail, self._next)
        certain = _certain(found, self._tail.split("\n"))
        done = [each.block for each in found[:certain]]
        still = [replace(each.block, is_open=each.block.code is not None) for each in found[certain:]]
        if certain:
            self._cut(found[certain])
        return done, still

    def _cut(self, first: _Found) -> None:
        self._tail = "\n".join(self._tail.split("\n")[first.start :])
        self._next = first.block.number if first.block.follows else None


def _certain(found: list[_Found], lines: list[str]) -> int:
    """Return how many blocks nothing can change any more: those before one whose first two lines are complete.

    Its first line alone doesn't do: what looks like a fence may become a paragraph with code in it, and what looks
    like a table is one only while the second line goes on like one.
    """
    complete = (n for n in range(len(found) - 1, 0, -1) if found[n].start + 2 < len(lines))
    return next((n for n in complete if _stands_alone(found[n], lines)), 0)


def _stands_alone(first: _Found, lines: list[str]) -> bool:
    """Return whether a text can be cut here: `- a | b` over `-|-` is an item below another, and a table without it."""
    opening = "\n".join(lines[first.start : first.start + 2])
    return not first.block.follows or blocks_of(opening)[0].number is not None


def _found(text: str, number: int | None) -> list[_Found]:
    """Return the blocks of a text; with a number, its first block is an item that goes on with a list."""
    lines = text.split("\n")
    found: list[_Found] = []
    for run in _top_level(_blocks_only().parse(text)):
        is_list = run[0].type in ("bullet_list_open", "ordered_list_open")
        found += _items(run, lines, number if not found else None) if is_list else [_single(run, lines)]
    return found


def _top_level(tokens: "list[Token]") -> "Iterator[list[Token]]":
    run: list[Token] = []
    for token in tokens:
        run.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield run
            run = []


def _single(run: "list[Token]", lines: list[str]) -> _Found:
    token = run[0]
    start, end = token.map or [0, 0]
    source = "\n".join(lines[start:end]).rstrip("\n")
    if token.type in _CODE:
        language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
        return _Found(Block(source, code=token.content, language=language), start)
    return _Found(Block(source, too_deep=_is_too_deep(run)), start)


def _items(run: "list[Token]", lines: list[str], number: int | None) -> Iterator[_Found]:
    counted = int(run[0].attrs.get("start", 1)) if number is None else number
    first = number is None
    items = [token for token in run if token.type == "list_item_open" and token.level == 1]
    for n, item in enumerate(items):
        start, end = item.map or [0, 0]
        source = "\n".join(lines[start:end]).rstrip("\n")
        block = Block(source, number=counted + n, follows=n > 0 or not first, too_deep=_is_too_deep(run))
        yield _Found(block, start)


def _is_too_deep(run: "list[Token]") -> bool:
    # What the parser leaves out is within a quote or an item at the last level that it opens.
    return any(token.level >= _DEEPEST - 1 for token in run)
