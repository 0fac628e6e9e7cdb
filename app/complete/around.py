"""Language-independent structure of a text: words, brackets, quotes, indentation."""

import re

OPENERS, CLOSERS = "([{", ")]}"
HARMLESS = frozenset(CLOSERS + "\"'`,;: \t")
"""Signs that editors insert behind the cursor by themselves, and signs that end a statement."""
# A quote behind a backslash begins no string. Otherwise, with the cursor inside a string, the search for each end takes
# seconds in a long line of JSON.
_STRING = re.compile(r'(?<!\\)(?:"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\\n])*`)')
_TOKEN = re.compile(r"\s*\n[^\S\n]*|\w+|[^\S\n]+|[^\w\s]")


def indentation(line: str) -> int:
    """Return the columns before the first character of a line; a tab reaches the next multiple of eight."""
    return len(line[: len(line) - len(line.lstrip())].expandtabs(8))


def tokens(text: str) -> list[tuple[str, int]]:
    """Return words, signs and line ends with their offsets; blanks inside a line are left out.

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
    """Return the number of brackets that are opened and not closed."""
    depth = 0
    for sign in without_strings(text):
        if sign in OPENERS:
            depth += 1
        elif sign in CLOSERS:
            depth = max(0, depth - 1)
    return depth


def unopened(text: str) -> list[int]:
    """Return the offsets of closing brackets that were not opened."""
    depth, places = 0, []
    for place, sign in enumerate(without_strings(text)):
        if sign in OPENERS:
            depth += 1
        elif sign in CLOSERS:
            if depth == 0:
                places.append(place)
            depth = max(0, depth - 1)
    return places
