"""What of a model's answer is worth showing at a cursor: rules that cut and drop, and never add.

A rule takes a text and what is around the cursor, and returns the text or a beginning of it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.complete.around import (
    CLOSERS,
    HARMLESS,
    OPENERS,
    indentation,
    tokens,
    unclosed,
    unopened,
)
from app.complete.echo import echo_start, tells
from app.complete.place import Window

CONTINUING = (
    *(")", "]", "}", "</"),
    *("else", "elif", "except", "finally", "catch", "rescue", "ensure", "end", "fi", "done", "then", "esac"),
)
"""What begins a line that belongs to the block before it."""
_CONTINUING = re.compile("|".join(re.escape(word) + r"\b" * word.isalpha() for word in CONTINUING))
_BRACKETS = frozenset(CLOSERS)
_WORDS, _SIGNS = 2, 5
"""Fewer different words, or fewer words and signs, may well stand in a line twice."""


@dataclass(frozen=True, slots=True)
class Around:
    """What is around a cursor; every line without its end."""

    behind: str
    """The beginning of the cursor's line."""
    ahead: str
    """The rest of the cursor's line."""
    above: tuple[str, ...]
    """Lines before the cursor's, the nearest last."""
    below: tuple[str, ...]
    """Lines after the cursor's, the nearest first."""

    @classmethod
    def of(cls, shown: Window) -> "Around":
        """Return what is around the cursor of a window."""
        ahead, *below = shown.suffix.split("\n")
        return cls(shown.behind, ahead, tuple(shown.prefix.split("\n")[:-1]), tuple(below))

    @property
    def in_a_line(self) -> bool:
        """Whether what follows on the line is more than closing brackets and the like."""
        return not HARMLESS.issuperset(self.ahead)


Rule = Callable[[str, Around], str]


def shown(said: str, around: Around, *, broken_off: bool, tidies: bool = True) -> str:
    """Return what to insert of an answer, every line ended by a bare newline; all of it unless it `tidies`.

    Where it was `broken_off` inside a character, it ends in U+FFFD: that is left out.
    """
    said = said.replace("\r\n", "\n")
    if broken_off:
        said = said.rstrip("\ufffd")
    text = beyond_written(said, around)
    if not tidies:
        return text
    return "" if is_further_left(said, around) else tidy(none_trailing(text), around, broken_off=broken_off)


def tidy(text: str, around: Around, *, broken_off: bool = False) -> str:
    """Return what is worth showing of an answer, "" for nothing; `broken_off`: it did not end by itself."""
    if broken_off:
        text = complete_lines(text, around)
    for rule in RULES:
        text = rule(text, around)
    return text


def beyond_written(text: str, around: Around) -> str:
    """Return an answer without the blanks that are written at the cursor already.

    The model is not shown these, for it knows them as the beginning of a word: after "x = " it would add another one.
    """
    return text[min(_written(around), _leading(text)) :]


def none_trailing(text: str) -> str:
    """Return an answer without blanks before a line end that it begins with: they would be left behind in the line."""
    rest = text[_leading(text) :]
    return rest if rest.startswith("\n") else text


def is_further_left(text: str, around: Around) -> bool:
    """Tell whether an answer begins to the left of a cursor that stands in an empty line: it is for another block."""
    on_a_line = bool(text.strip()) and not text.lstrip(" \t").startswith("\n")
    return on_a_line and not around.behind.strip() and _leading(text) < _written(around)


def complete_lines(text: str, _: Around) -> str:
    """Drop a last line that is not complete, where there is a line before it."""
    whole = text.rpartition("\n")[0]
    return whole if whole.strip() else text


def one_line(text: str, around: Around) -> str:
    """Keep to the cursor's line where more of it follows."""
    return text.partition("\n")[0] if around.in_a_line else text


def no_loop(text: str, around: Around) -> str:
    """End with the first copy of a block that comes at least twice in a row, of a single line three times."""
    kept = loop_end((around.behind + text).split("\n"))
    return text if kept is None else "\n".join(text.split("\n")[:kept])


def in_scope(text: str, around: Around) -> str:
    """End where the block of the cursor ends: below its indentation, or after a block that the cursor's line opens."""
    lines = text.split("\n")
    kept = scope_end(lines, around)
    return text if kept is None else "\n".join(lines[:kept])


def no_following_lines(text: str, around: Around) -> str:
    """End before a line that is the next one of the document."""
    following = [line.rstrip() for line in around.below if line.strip()]
    lines = text.split("\n")
    for number in range(1, len(lines)):
        rest = [line.rstrip() for line in lines[number:] if line.strip()]
        if rest and following and rest[0] == following[0] and (tells(rest[:1]) or begins(following, rest)):
            return "\n".join(lines[:number])
    return text


def no_repeated_lines(text: str, around: Around) -> str:
    """End where several lines that follow are said again, or the very next one at once, though more is said then."""
    lines = text.split("\n")
    start = echo_start([around.behind + lines[0], *lines[1:]], around.above, around.below)
    return text if start is None else "\n".join(lines[:start])


def no_repeated_rest(text: str, around: Around) -> str:
    """End before the rest of the cursor's line, where as much of it is said again as is no accident, and go on or not.

    Several words of it have to be said, in the same order and from its beginning.
    """
    follows = [token for token, _ in tokens(around.ahead)]
    said = tokens(text.partition("\n")[0])
    for number, (_, place) in enumerate(said):
        run = _common([token for token, _ in said[number:]], follows)
        words = {token for token in follows[:run] if token[0].isalnum()}
        if run >= _SIGNS and len(words) >= _WORDS and _as_closed(text[:place], text, around):
            return text[:place]
    return text


def _common(some: Sequence[str], others: Sequence[str]) -> int:
    """Return how many tokens at the beginning are the same."""
    same = (one == other for one, other in zip(some, others, strict=False))
    return next((count for count, equal in enumerate(same) if not equal), min(len(some), len(others)))


def no_closing(text: str, around: Around) -> str:
    """End before a bracket that closes what the rest of the line closes already."""
    ahead = around.ahead.lstrip(" \t\"'`,;:")
    waiting = len(ahead) - len(ahead.lstrip(CLOSERS))
    if not waiting:
        return text
    allowed = max(0, unclosed(around.behind) - waiting)
    places = unopened(text.partition("\n")[0] if around.in_a_line else text)
    return text[: places[allowed]] if len(places) > allowed else text


def no_echo(text: str, around: Around) -> str:
    """Drop an end that is what follows the cursor, word by word.

    Brackets alone are no echo, and neither is what closes a bracket or a quote that the rest of the text opened.
    """
    said, suffix = tokens(text), tokens("\n".join((around.ahead, *around.below)))
    follows = [token for token, _ in suffix]
    for size in range(min(len(said), len(follows)), 0, -1):
        end = [token for token, _ in said[-size:]]
        if end == follows[:size] and not _BRACKETS.issuperset(end):
            rest = text[: said[-size][1]]
            if _as_closed(rest, text, around):
                return rest
    return text


def no_repeat(text: str, around: Around) -> str:
    """Drop a text whose lines are the next ones, or the last ones."""
    first, *rest = text.split("\n")
    lines = [line.rstrip() for line in (around.behind + first, *rest) if line.strip()]
    above = [line.rstrip() for line in around.above if line.strip()]
    below = [line.rstrip() for line in around.below if line.strip()]
    repeats = begins(below, lines) or above[-len(lines) :] == lines
    return "" if lines and repeats and tells(lines) else text


def trimmed(text: str, around: Around) -> str:
    """Drop blanks and line ends behind the last word, except a space that keeps it from the next one."""
    following = around.ahead[:1]
    if following.isalnum() or following in ("_", '"', "'", *OPENERS):
        return text.rstrip("\n")
    return text.rstrip()


def not_blank(text: str, _: Around) -> str:
    """Drop a text without a word."""
    return text if text.strip() else ""


RULES: tuple[Rule, ...] = (
    one_line,
    no_loop,
    in_scope,
    no_following_lines,
    no_repeated_lines,
    no_repeated_rest,
    no_closing,
    no_echo,
    no_repeat,
    trimmed,
    not_blank,
)
"""In the order in which they are applied."""


def loop_end(lines: Sequence[str]) -> int | None:
    """Return after how many lines a block is said again; None: it never is.

    The loop that is complete first counts, so that nothing which is said later brings back what was cut.
    """
    for end in range(len(lines) + 1):
        for size in range(end // 2, 0, -1):
            times = 2 if size > 1 else 3
            block = lines[max(0, end - size) : end]
            if any(map(str.strip, block)) and [*lines[max(0, end - size * times) : end]] == [*block] * times:
                return end - size * (times - 1)
    return None


def scope_end(lines: Sequence[str], around: Around) -> int | None:
    """Return after how many lines the block of the cursor ends; None: it does not."""
    base = _base(lines, around)
    depths = [(number, indentation(line)) for number, line in enumerate(lines) if number and line.strip()]
    # Nothing is below the outermost code, so a block ends it that the completion itself opens.
    outermost = base == 0 or around.behind.strip()
    opens = bool(depths and depths[0][1] > base and outermost)
    for number, depth in depths:
        if depth < base or (opens and depth == base and not _CONTINUING.match(lines[number].lstrip())):
            return number
    return None


def _written(around: Around) -> int:
    return len(around.behind) - len(around.behind.rstrip(" \t"))


def _leading(text: str) -> int:
    return len(text) - len(text.lstrip(" \t"))


def _base(lines: Sequence[str], around: Around) -> int:
    """Return the indentation of the cursor's line; where that is empty, of the first line that is not."""
    first = around.behind + lines[0]
    return indentation(first if first else next((line for line in lines if line.strip()), ""))


def begins(lines: Sequence[str], with_: Sequence[str]) -> bool:
    """Tell whether lines begin with others."""
    return list(lines[: len(with_)]) == list(with_)


def _as_closed(rest: str, text: str, around: Around) -> bool:
    """Tell whether brackets and quotes are closed as well with a beginning of a text as with all of it."""
    short, long = (around.behind + said + around.ahead for said in (rest, text))
    odd = (short.count(quote) % 2 <= long.count(quote) % 2 for quote in "\"'`")
    return unclosed(rest) <= unclosed(text) and all(odd)
