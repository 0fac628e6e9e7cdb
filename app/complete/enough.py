"""Early end of a completion, once any further text would be cut off.

The rules of `tidy` see a whole answer, and some of them its end. Here each rule is checked for all possible
continuations. An uncertain case continues: the shown text must never depend on the time of the check.
"""

from collections.abc import Iterable, Sequence

from app.complete.around import without_strings
from app.complete.echo import echo_start, tells
from app.complete.tidy import (
    CONTINUING,
    Around,
    begins,
    beyond_written,
    is_further_left,
    loop_end,
    no_closing,
    none_trailing,
    scope_end,
)


def is_enough(answer: str, around: Around) -> bool:
    """Tell whether the shown text is final, whatever follows, even if the answer ends in the middle of a line."""
    # A carriage return at the end may become a line end.
    answer = answer.replace("\r\n", "\n").removesuffix("\r")
    if not answer.strip():
        return False
    if is_further_left(answer, around):
        return True
    *lines, begun = none_trailing(beyond_written(answer, around)).split("\n")
    if not lines or around.in_a_line:
        return bool(lines)
    loops = loop_end([around.behind + lines[0], *lines[1:]]) is not None
    return loops or any(rule(lines, begun, around) for rule in (_leaves_scope, _follows, _echoes, _closes))


def _leaves_scope(lines: Sequence[str], begun: str, around: Around) -> bool:
    """Tell whether a line is certainly outside the block, even if it is incomplete."""
    end = scope_end([*lines, begun], around)
    if end is None or _may_loop(lines, begun, around, end):
        return False
    # The beginning of a word may become "else", which belongs to the block.
    first = begun.lstrip()
    may_be = [begun + word.removeprefix(first) for word in CONTINUING if word.startswith(first)]
    return end < len(lines) or all(scope_end([*lines, line], around) == end for line in may_be)


def _follows(lines: Sequence[str], begun: str, around: Around) -> bool:
    """Tell whether a line equals the document's next one and is long enough."""
    following = [line.rstrip() for line in around.below if line.strip()][:1]
    if not tells(following):
        return False
    found = [number for number, line in enumerate(lines) if number and [line.rstrip()] == following]
    return bool(found) and not _may_loop(lines, begun, around, found[0] + 1)


def _echoes(lines: Sequence[str], begun: str, around: Around) -> bool:
    """Tell whether lines after the cursor are repeated, from any point."""
    kept = lines[: scope_end(lines, around)]
    whole = [around.behind + kept[0], *kept[1:]]
    start = echo_start(whole, around.above, around.below, ends=False)
    if start is None:
        return False
    # Neither a loop nor another rule may cut off some of the lines that show the repeat.
    parts = ((size, whole[:size]) for size in range(start + 1, len(whole) + 1))
    shows = (size for size, part in parts if echo_start(part, around.above, around.below, ends=False) == start)
    end = next(shows)
    within = (number for number in range(1, end) if number != start)
    return not _may_follow(lines, around, within) and not _may_loop(lines, begun, around, end)


def _closes(lines: Sequence[str], begun: str, around: Around) -> bool:
    """Tell whether a bracket closes what the rest of the cursor's line closes already."""
    text = "\n".join(lines)
    shown = no_closing(text, around)
    # An open string may still hide the bracket.
    if shown == text or "`" in without_strings(text)[: len(shown)]:
        return False
    kept = shown.count("\n") + 1
    return not _may_follow(lines[:kept], around, range(1, kept)) and not _may_loop(lines, begun, around, kept)


def _may_follow(lines: Sequence[str], around: Around, starts: Iterable[int]) -> bool:
    """Tell whether the lines from one of `starts` on, to the last, equal the beginning of the following text."""
    following = [line.rstrip() for line in around.below if line.strip()]
    ends = ([line.rstrip() for line in lines[number:] if line.strip()] for number in starts)
    return any(end and begins(following, end) for end in ends)


def _may_loop(lines: Sequence[str], begun: str, around: Around, kept: int) -> bool:
    """Tell whether a loop is still possible that leaves fewer lines than the limit."""
    lines = [around.behind + lines[0], *lines[1:]]
    return any(
        all(lines[number] == lines[number - size] for number in range(start + size, len(lines)))
        and lines[len(lines) - size].startswith(begun)
        for start in range(kept)
        for size in range(1, kept - start)
    )
