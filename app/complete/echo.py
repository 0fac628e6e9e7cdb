"""Detection of an answer that begins to repeat the text after the cursor.

A single repeated line may be intended: a decorator, a blank print, a return in another branch. So it counts only if it
is the very next line; lines further down, or indented otherwise, need more evidence.
"""

from collections.abc import Sequence, Set

_SLIGHT = 4
"""A line with so few characters, such as a bracket or "end", is no evidence of a repeat."""
_HEADS = ("@", "#", "//", "/*", "*", "--")
_OPENS = (":", "{", "(", "[", ",\\", "=", "do", "then", "begin", "=>")
"""Beginnings or ends of lines that may introduce several similar blocks."""
_FAR = 64
"""Maximum distance of compared lines below the cursor."""


def tells(lines: Sequence[str]) -> bool:
    """Tell whether lines are long enough to exclude a chance repeat."""
    return any(_telling(line) for line in lines)


def echo_start(lines: Sequence[str], above: Sequence[str], below: Sequence[str], *, ends: bool = True) -> int | None:
    """Return the first line of an answer that repeats the text after the cursor; None for no repeat.

    `lines` are whole lines, the first with the text before the cursor. While the answer goes on (not `ends`), the
    result is also None as long as an earlier repeat is still possible.
    """
    written = [(number, line.rstrip()) for number, line in enumerate(lines) if line.strip()]
    following = [line.rstrip() for line in below if line.strip()][:_FAR]
    bare, known = [line for _, line in written], frozenset(line.strip() for line in above)
    for place, (number, _) in enumerate(written):
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
    """Return the required number of repeated lines, and the required number of long ones among them."""
    if start:
        return (4, 3) if shifted else (3, 2)
    return (3, 2) if shifted else (2, 2)


def _is_echo(lines: Sequence[str], need: tuple[int, int], known: Set[str]) -> bool:
    count, telling = need
    # Lines that also occur above the cursor are common in this document.
    return len(lines) >= count and sum(_telling(line) for line in lines if line.strip() not in known) >= telling


def _run(written: Sequence[str], following: Sequence[str], *, shifted: bool) -> int:
    """Return the number of equal lines in sequence; with `shifted`, indentation is ignored."""
    count = 0
    for one, other in zip(written, following, strict=False):
        if one != other and not (shifted and one.split() == other.split()):
            break
        count += 1
    return count


def _is_next_alone(line: str, following: str, known: Set[str]) -> bool:
    """Tell whether a first line equals the very next one and does not introduce a block."""
    bare = line.strip()
    common = bare.startswith(_HEADS) or bare.endswith(_OPENS) or bare in known
    return line == following and _telling(line) and not common


def _telling(line: str) -> bool:
    return len(line.strip()) > _SLIGHT and any(map(str.isalnum, line))
