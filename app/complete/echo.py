"""Finds where an answer begins to repeat what follows the cursor, whether it goes on afterwards or not.

A line alone may be meant: a decorator, a blank print, a return in another branch. So a single line counts only as the
very next one, and more is asked of lines that are further down or indented otherwise.
"""

from collections.abc import Sequence, Set

_SLIGHT = 4
"""A line of so few characters, such as a bracket or "end", is no sign that something is repeated."""
_HEADS = ("@", "#", "//", "/*", "*", "--")
_OPENS = (":", "{", "(", "[", ",\\", "=", "do", "then", "begin", "=>")
"""What a line begins or ends with that may come before several blocks alike."""
_FAR = 64
"""Lines below the cursor that are looked at."""


def tells(lines: Sequence[str]) -> bool:
    """Tell whether lines are long enough for a repeat to be no accident."""
    return any(_telling(line) for line in lines)


def echo_start(lines: Sequence[str], above: Sequence[str], below: Sequence[str], *, ends: bool = True) -> int | None:
    """Return the line of an answer at which it begins to repeat what follows; None: it does not.

    `lines` are whole lines, the first with what is written before the cursor. Where the answer still goes on, not
    `ends`, it is also None while a repeat that begins earlier may come true yet.
    """
    said = [(number, line.rstrip()) for number, line in enumerate(lines) if line.strip()]
    following = [line.rstrip() for line in below if line.strip()][:_FAR]
    bare, known = [line for _, line in said], frozenset(line.strip() for line in above)
    for place, (number, _) in enumerate(said):
        if place == 0 and following and _is_next_alone(bare[0], following[0], known):
            return 0
        rest = bare[place:]
        runs = [
            (_run(rest, following[start:], shifted=shifted), _need(start, shifted=shifted))
            for start in range(len(following))
            for shifted in (False, True)
        ]
        if any(_is_echo(rest[:run], need, known) for run, need in runs):
            return number
        if not ends and any(run == len(rest) for run, _ in runs):
            return None
    return None


def _need(start: int, *, shifted: bool) -> tuple[int, int]:
    """Return how many lines have to be repeated, and how many of them have to tell."""
    if start:
        return (4, 3) if shifted else (3, 2)
    return (3, 2) if shifted else (2, 2)


def _is_echo(lines: Sequence[str], need: tuple[int, int], known: Set[str]) -> bool:
    count, telling = need
    # Lines that stand above the cursor too are said again and again in this document.
    return len(lines) >= count and sum(_telling(line) for line in lines if line.strip() not in known) >= telling


def _run(said: Sequence[str], following: Sequence[str], *, shifted: bool) -> int:
    """Return how many lines are the same one after the other; `shifted`: but for their indentation."""
    count = 0
    for one, other in zip(said, following, strict=False):
        if one != other and not (shifted and one.split() == other.split()):
            break
        count += 1
    return count


def _is_next_alone(line: str, following: str, known: Set[str]) -> bool:
    """Tell whether a first line is the very next one, and none that several blocks may have."""
    bare = line.strip()
    common = bare.startswith(_HEADS) or bare.endswith(_OPENS) or bare in known
    return line == following and _telling(line) and not common


def _telling(line: str) -> bool:
    return len(line.strip()) > _SLIGHT and any(map(str.isalnum, line))
