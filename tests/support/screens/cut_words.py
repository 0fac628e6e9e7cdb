"""Words of which a part ends a line of a screen and the rest begins the next, and texts that are hard to wrap."""

import re
from collections.abc import Iterator
from itertools import pairwise

from rich.cells import cell_len

LONG = "qwen2.5-coder-1.5b-instruct-q4_k_m-with-a-very-long-name-indeed-Q4_0-a17697fc"
TEXT = (
    "Numbers such as 1,234,567.89 tokens/s stay whole, and so do `identifiers_like_this_one` and 3.14159265358979. "
    "Ein Satz mit Umlauten: Größenordnungsmäßig übereinstimmend. 日本語 の 文章 も あります。"
    " Emoji 👩‍👩‍👧 und 🙂🙂 Zeichen.\n\n"
    "- an item of a list that is long enough to be wrapped on every one of the screens, with a number: 0.0001234\n\n"
    "| name | tokens/s |\n|---|---|\n| " + LONG + " | 44.7 |\n\n> A quote that says that measurements are repeated."
)
_EDGES = " │┃╭╮╰╯─▌▐█▄▀▎▊·"


def cut(lines: list[str], whole: set[str]) -> Iterator[str]:
    """Yield the words of which a part ends a line and the rest begins the next."""
    for line, following in pairwise(line.strip(_EDGES) for line in lines):
        if line and following:
            end, beginning = line.split()[-1], following.split()[0]
            fits = cell_len(end + beginning) <= max(map(cell_len, lines)) - 12
            if fits and end + beginning in whole and end not in whole:
                yield end + beginning


def missing(lines: list[str], text: str) -> list[str]:
    """Return the words of a text that are on no line, whole or, of those that are wider than a line, in pieces."""
    dialogs = [re.search("│(.*)│", line) for line in lines]
    within = [found[1] for found in dialogs if found] or lines
    seen = "".join(line.strip(_EDGES) for line in within).replace(" ", "")
    return [word for word in text.split() if word not in seen]
