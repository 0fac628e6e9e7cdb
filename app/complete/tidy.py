"""Trimming of a model's answer at a cursor: rules that cut and drop text, and never add any.

A rule takes a text and its surroundings, and returns the text or a beginning of it.
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
"""Beginnings of lines that belong to the block before them."""
_CONTINUING = re.compile("|".join(re.escape(word) + r"\b" * word.isalpha() for word in CONTINUING))
_BRACKETS = frozenset(CLOSERS)
_WORDS, _SIGNS = 2, 5
"""Lines with fewer different words, or fewer words and signs, may well occur twice."""


@dataclass(frozen=True, slots=True)
class Around:
    """The text around a cursor; lines without their ends."""

    behind: str
    """The cursor's line before the cursor."""
    ahead: str
    """The cursor's line after the cursor."""
    above: tuple[str, ...]
    """Lines before the cursor's, the nearest last."""
    below: tuple[str, ...]
    """Lines after the cursor's, the nearest first."""

    @classmethod
    def of(cls, shown: Window) -> "Around":
        """Return the text around the cursor of a window."""
        ahead, *below = shown.suffix.split("\n")
        return cls(shown.behind, ahead, tuple(shown.prefix.split("\n")[:-1]), tuple(below))

    @property
    def in_a_line(self) -> bool:
        """Whether more than closing brackets and the like follows on the cursor's line."""
        return not HARMLESS.issuperset(self.ahead)


Rule = Callable[[str, Around], str]


def shown(answer: str, around: Around, *, broken_off: bool, tidies: bool = True) -> str:
    """Return the text to insert, lines ending with bare newlines; the whole answer unless it `tidies`.

    An answer `broken_off` inside a character ends in U+FFFD, which is removed.
    """
    answer = answer.replace("\r\n", "\n")
    if broken_off:
        answer = answer.rstrip("\ufffd")
    text = beyond_written(answer, around)
    if not tidies:
        return text
    return "" if is_further_left(answer, around) else tidy(none_trailing(text), around, broken_off=broken_off)


def tidy(text: str, around: Around, *, broken_off: bool = False) -> str:
    """Return the part of an answer that is worth showing, "" for none; `broken_off`: it was cut by a limit."""
    if broken_off:
        text = complete_lines(text, around)
    for rule in RULES:
        text = rule(text, around)
    return text


def beyond_written(text: str, around: Around) -> str:
    """Return an answer without the blanks that are already written at the cursor.

    The prompt leaves them out, because they belong to the next word's token: after "x = " the model would add another.
    """
    return text[min(_written(around), _leading(text)) :]


def none_trailing(text: str) -> str:
    """Return an answer without blanks before a leading line end: they would stay behind in the line."""
    rest = text[_leading(text) :]
    return rest if rest.startswith("\n") else text


def is_further_left(text: str, around: Around) -> bool:
    """Tell whether an answer begins left of a cursor in an empty line: it belongs to another block."""
    on_a_line = bool(text.strip()) and not text.lstrip(" \t").startswith("\n")
    return on_a_line and not around.behind.strip() and _leading(text) < _written(around)


def complete_lines(text: str, _: Around) -> str:
    """Drop an incomplete last line after a complete one."""
    whole = text.rpartition("\n")[0]
    return whole if whole.strip() else text


def one_line(text: str, around: Around) -> str:
    """Keep only the cursor's line if text follows on it."""
    return text.partition("\n")[0] if around.in_a_line else text


def no_loop(text: str, around: Around) -> str:
    """End after the first copy of a block that is repeated: two copies in a row, three for a single line."""
    kept = loop_end((around.behind + text).split("\n"))
    return text if kept is None else "\n".join(text.split("\n")[:kept])


def in_scope(text: str, around: Around) -> str:
    """End with the cursor's block: before less indentation, or after a block that the cursor's line opens."""
    lines = text.split("\n")
    kept = scope_end(lines, around)
    return text if kept is None else "\n".join(lines[:kept])


def no_following_lines(text: str, around: Around) -> str:
    """End before a line that equals the document's next one."""
    following = [line.rstrip() for line in around.below if line.strip()]
    lines = text.split("\n")
    for number in range(1, len(lines)):
        rest = [line.rstrip() for line in lines[number:] if line.strip()]
        if rest and following and rest[0] == following[0] and (tells(rest[:1]) or begins(following, rest)):
            return "\n".join(lines[:number])
    return text


def no_repeated_lines(text: str, around: Around) -> str:
    """End before several repeated lines of the following text, or the very next one, even if more text follows."""
    lines = text.split("\n")
    start = echo_start([around.behind + lines[0], *lines[1:]], around.above, around.below)
    return text if start is None else "\n".join(lines[:start])


def no_repeated_rest(text: str, around: Around) -> str:
    """End before a repeat of the rest of the cursor's line that is too long for chance, even if more text follows.

    Several of its words must be repeated, in order and from its beginning.
    """
    follows = [token for token, _ in tokens(around.ahead)]
    line_tokens = tokens(text.partition("\n")[0])
    for number, (_, place) in enumerate(line_tokens):
        run = _common([token for token, _ in line_tokens[number:]], follows)
        words = {token for token in follows[:run] if token[0].isalnum()}
        if run >= _SIGNS and len(words) >= _WORDS and _as_closed(text[:place], text, around):
            return text[:place]
    return text


def _common(some: Sequence[str], others: Sequence[str]) -> int:
    """Return the number of equal tokens at the beginning."""
    same = (one == other for one, other in zip(some, others, strict=False))
    return next((count for count, equal in enumerate(same) if not equal), min(len(some), len(others)))


def no_closing(text: str, around: Around) -> str:
    """End before a bracket that the rest of the line closes already."""
    ahead = around.ahead.lstrip(" \t\"'`,;:")
    waiting = len(ahead) - len(ahead.lstrip(CLOSERS))
    if not waiting:
        return text
    allowed = max(0, unclosed(around.behind) - waiting)
    places = unopened(text.partition("\n")[0] if around.in_a_line else text)
    return text[: places[allowed]] if len(places) > allowed else text


def no_echo(text: str, around: Around) -> str:
    """Drop an end that repeats the following text word by word.

    Brackets alone are no repeat, nor is a sign that closes a bracket or quote of the remaining text.
    """
    words, suffix = tokens(text), tokens("\n".join((around.ahead, *around.below)))
    follows = [token for token, _ in suffix]
    for size in range(min(len(words), len(follows)), 0, -1):
        end = [token for token, _ in words[-size:]]
        if end == follows[:size] and not _BRACKETS.issuperset(end):
            rest = text[: words[-size][1]]
            if _as_closed(rest, text, around):
                return rest
    return text


def no_repeat(text: str, around: Around) -> str:
    """Drop a text whose lines equal the next or the previous ones."""
    first, *rest = text.split("\n")
    lines = [line.rstrip() for line in (around.behind + first, *rest) if line.strip()]
    above = [line.rstrip() for line in around.above if line.strip()]
    below = [line.rstrip() for line in around.below if line.strip()]
    repeats = begins(below, lines) or above[-len(lines) :] == lines
    return "" if lines and repeats and tells(lines) else text


def trimmed(text: str, around: Around) -> str:
    """Drop blanks and line ends after the last word, except a space before a following word."""
    following = around.ahead[:1]
    if following.isalnum() or following in ("_", '"', "'", *OPENERS):
        return text.rstrip("\n")
    return text.rstrip()


def not_blank(text: str, _: Around) -> str:
    """Drop a text without any word."""
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
"""The rules, in order of application."""


def loop_end(lines: Sequence[str]) -> int | None:
    """Return the number of lines until a block repeats; None for no repeat.

    The first complete loop counts, so that later text never restores what was cut.
    """
    for end in range(len(lines) + 1):
        for size in range(end // 2, 0, -1):
            times = 2 if size > 1 else 3
            block = lines[max(0, end - size) : end]
            if any(map(str.strip, block)) and [*lines[max(0, end - size * times) : end]] == [*block] * times:
                return end - size * (times - 1)
    return None


def scope_end(lines: Sequence[str], around: Around) -> int | None:
    """Return the number of lines until the cursor's block ends; None if it does not end."""
    base = _base(lines, around)
    depths = [(number, indentation(line)) for number, line in enumerate(lines) if number and line.strip()]
    # No indentation is below outermost code: only a block that the completion itself opens can end it.
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
    """Return the indentation of the cursor's line or, if that is empty, of the first line that is not."""
    first = around.behind + lines[0]
    return indentation(first if first else next((line for line in lines if line.strip()), ""))


def begins(lines: Sequence[str], with_: Sequence[str]) -> bool:
    """Tell whether lines begin with others."""
    return list(lines[: len(with_)]) == list(with_)


def _as_closed(rest: str, text: str, around: Around) -> bool:
    """Tell whether a beginning of a text closes brackets and quotes as well as all of it does."""
    short, long = (around.behind + ending + around.ahead for ending in (rest, text))
    odd = (short.count(quote) % 2 <= long.count(quote) % 2 for quote in "\"'`")
    return unclosed(rest) <= unclosed(text) and all(odd)
