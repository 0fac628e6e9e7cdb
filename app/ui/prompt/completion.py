"""Completions at the cursor and their ranking, without a widget."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice
from typing import Literal

from app.chat_input.mentions import BEFORE, mention

_MOST = 50
"""Candidates offered at most; another typed letter narrows them."""
_MOST_COMPARED = 2_000
"""Candidates that are compared, of those that fit at all; with more, a key would be felt."""
_COMMAND = re.compile(r"/(?P<name>[^\s/]*)")
_ARGUMENT = re.compile(r"/(?P<name>[^\s/]+)[ \t]+(?P<partial>.*)")
_FILE = re.compile(rf"""(?:^|(?<=[{BEFORE}]))@(?:"(?P<quoted>[^"\n]*)|(?P<bare>[^\s"]*))$""")

Kind = Literal["command", "argument", "file"]


@dataclass(frozen=True, slots=True)
class Partial:
    """Typed text that can be completed."""

    kind: Kind
    query: str
    """The typed part of the name."""
    start: int
    """Column in the cursor's line from which on it is replaced."""
    command: str = ""
    """The command whose argument it is."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing that it could become."""

    shown: str
    text: str
    """Text that replaces the typed part."""
    matched: tuple[int, ...] = ()
    """Places in `shown` of the characters that were typed."""
    help: str = ""


@dataclass(slots=True)
class Sources:
    """Sources of completions: commands, arguments, files."""

    commands: Mapping[str, str] = field(default_factory=dict)
    """Slash commands, without the slash, and what they are for."""
    complete_argument: Callable[[str, str], Sequence[str]] | None = None
    """Takes a command and the beginning of its argument; returns what it can be."""
    files: Sequence[str] = ()
    """Paths in the order of `nearest_first`."""

    def find(self, typed: Partial) -> list[Candidate]:
        """Return what it could become, the best first; nothing where it is complete as it is."""
        if typed.kind == "command":
            return commands_for(typed.query, self.commands)
        if typed.kind == "file":
            return files_for(typed.query, self.files)
        values = self.complete_argument(typed.command, typed.query) if self.complete_argument else ()
        found = arguments_for(typed.query, values)
        return [] if [candidate.text for candidate in found] == [typed.query] else found


def partial_at(line: str, column: int, row: int) -> Partial | None:
    """Return what can be completed before the cursor: a command and its argument in the first line, files anywhere."""
    before = line[:column]
    if row == 0 and (found := _COMMAND.fullmatch(before)):
        return Partial("command", found["name"], 0)
    if found := _FILE.search(before):
        return Partial("file", found["quoted"] or found["bare"] or "", found.start())
    if row == 0 and (found := _ARGUMENT.fullmatch(before)):
        return Partial("argument", found["partial"], found.start("partial"), found["name"])
    return None


def commands_for(query: str, commands: Mapping[str, str]) -> list[Candidate]:
    """Return the commands that fit, the best first; all of them in their order for an empty query."""
    return [
        Candidate(f"/{name}", f"/{name} ", tuple(place + 1 for place in matched), commands[name])
        for name, matched in _ranked(query, commands)
    ]


def arguments_for(query: str, values: Sequence[str]) -> list[Candidate]:
    """Return the values that fit, the best first; all of them in their order for an empty query."""
    return [Candidate(value, value, matched) for value, matched in _ranked(query, values)]


def nearest_first(files: Iterable[str]) -> list[str]:
    """Return paths in the order in which they are offered before anything was typed."""
    return sorted(files, key=lambda path: (path.count("/"), path))


def files_for(query: str, files: Sequence[str]) -> list[Candidate]:
    """Return the files that fit, the best first; `files` are in the order of `nearest_first`."""
    return [Candidate(path, mention(path) + " ", matched) for path, matched in _ranked(query, files)]


def _ranked(query: str, names: Collection[str]) -> list[tuple[str, tuple[int, ...]]]:
    if not query:
        return [(name, ()) for name in islice(names, _MOST)]
    together, scattered = _together(query), _scattered(query)
    fitting = list(islice(filter(together.search, names), _MOST_COMPARED))
    if len(fitting) < _MOST:
        fitting = list(dict.fromkeys([*fitting, *islice(filter(scattered.search, names), _MOST_COMPARED)]))
    found = ((name, _places(together, scattered, name)) for name in fitting)
    return nsmallest(_MOST, found, key=lambda pair: _rank(*pair))


def _together(query: str) -> re.Pattern[str]:
    return re.compile("".join(f"({re.escape(character)})" for character in query), re.IGNORECASE)


def _scattered(query: str) -> re.Pattern[str]:
    """Return a pattern of these characters in order, with others between them.

    Textual's own matcher tries every way to place the characters, which takes minutes for some names; this one takes
    the first way from each start on.
    """
    groups = [f"({re.escape(character)})" for character in query]
    between = [f"[^{re.escape(character)}]*" for character in query[1:]]
    parts = (part for pair in zip(groups, [*between, ""], strict=True) for part in pair)
    return re.compile("".join(parts), re.IGNORECASE)


def _places(together: re.Pattern[str], scattered: re.Pattern[str], name: str) -> tuple[int, ...]:
    """Return where the characters of a query are: together and in the last part of a path, as far as they can be."""
    last = name.rfind("/") + 1
    tries = (pattern.search(name, start) for pattern in (together, scattered) for start in (last, 0))
    found = next(filter(None, tries))
    return tuple(found.start(group) for group in range(1, found.re.groups + 1))


def _rank(name: str, places: tuple[int, ...]) -> tuple[object, ...]:
    last = name.rfind("/") + 1
    gaps = places[-1] - places[0] + 1 - len(places)
    begins = places[0] in (0, last) or not name[places[0] - 1].isalnum()
    return gaps, not begins, places[0] < last, name.count("/"), len(name), name
