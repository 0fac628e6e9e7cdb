"""What is left of a text's meaning when it is looked at without its language: words, brackets, quotes, indentation."""

import re

OPENERS, CLOSERS = "([{", ")]}"
HARMLESS = frozenset(CLOSERS + "\"'`,;: \t")
"""What editors put behind the cursor by themselves, and what ends a statement."""
# A quote behind a backslash begins none. Where the cursor is inside of a string, the rest of the line would be searched
# for the end of each: for a long line of JSON in a string that took seconds.
_STRING = re.compile(r'(?<!\\)(?:"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\\n])*`)')
_TOKEN = re.compile(r"\s*\n[^\S\n]*|\w+|[^\S\n]+|[^\w\s]")


def indentation(line: str) -> int:
    """Return the columns before the first character of a line, a tab reaching the next multiple of eight."""
    return len(line[: len(line) - len(line.lstrip())].expandtabs(8))


def tokens(text: str) -> list[tuple[str, int]]:
    """Return words, signs and line ends with where each begins; blanks inside a line are left out.

    A line end is one token with the blank lines after it and the indentation of the next line.
    """
    found = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if "\n" in token:
            found.append(("\n" + token[token.rindex("\n") + 1 :], match.start()))
        elif not token.isspace():
            found.append((token, match.start()))
    return found


def without_strings(text: str) -> str:
    """Return a text of the same length in which strings are filled with spaces."""
    return _STRING.sub(lambda match: " " * len(match.group()), text)


def unclosed(text: str) -> int:
    """Return how many brackets are opened and not closed."""
    depth = 0
    for sign in without_strings(text):
        if sign in OPENERS:
            depth += 1
        elif sign in CLOSERS:
            depth = max(0, depth - 1)
    return depth


def unopened(text: str) -> list[int]:
    """Return where brackets are closed that were not opened."""
    depth, places = 0, []
    for place, sign in enumerate(without_strings(text)):
        if sign in OPENERS:
            depth += 1
        elif sign in CLOSERS:
            if depth == 0:
                places.append(place)
            depth = max(0, depth - 1)
    return places
