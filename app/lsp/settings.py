"""The settings that an editor can give, at the start and while it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

SECTION = "localspec"
"""Name of the table that editors keep these settings in, among those of others."""
COMPLETION = ("auto", "on", "off")
_AT_LEAST_ONE = ("max_tokens", "time_limit_ms")
_AT_THE_START = ("completion", "trigger")


@dataclass(frozen=True, slots=True)
class Settings:
    """What to load, how much to say, and when."""

    model: str = ""
    """The target; "": the one of the command line."""
    draft: str = ""
    """Who guesses; "": as on the command line."""
    context: int = 0
    """Tokens of context; 0: as on the command line."""
    debounce_ms: int = 150
    """Time without a key before a completion that nobody asked for is begun."""
    max_lines: int = 0
    """Most lines of a completion, empty ones not counted; 0: any number."""
    max_tokens: int = 128
    time_limit_ms: int = 1000
    """Time to speak; the first line is completed in any case, and a later one that is cut is left out."""
    prefix_lines: int = 256
    """Lines before the cursor that the model is shown."""
    suffix_lines: int = 64
    prefetch: bool = True
    """Work out the next completion while one is being looked at."""
    completion: str = "auto"
    """Whether to answer plain completions too; "auto": for editors without inline ones. Read at the start alone."""
    trigger: tuple[str, ...] = ()
    """Characters after which the editor should ask for a plain completion by itself. Read at the start alone."""


_NAMES = [field.name for field in fields(Settings)]


def with_settings(settings: Settings, given: object) -> tuple[Settings, list[str]]:
    """Return the settings with those that an editor gives, and what is wrong with the others, a sentence each.

    They may be in a table "localspec", which then is all that is looked at; tables of other names are of other servers.
    """
    table = given.get(SECTION, given) if isinstance(given, Mapping) else given
    if table is None:
        return settings, []
    if not isinstance(table, Mapping):
        return settings, [f"The settings of {SECTION} must be a table of names and values."]
    changes: dict[str, Any] = {}
    wrong = []
    for name, value in table.items():
        if isinstance(value, Mapping) and name not in _NAMES:
            continue
        if (reason := _wrong(name, value)) is None:
            changes[name] = tuple(value) if isinstance(value, list) else value
        else:
            wrong.append(reason)
    return replace(settings, **changes), wrong


def with_changes(start: Settings, given: object) -> tuple[Settings, list[str]]:
    """Return the same as `with_settings` for what an editor gives while it runs.

    What it had to know before it asked for anything stays as it was at the start; another value is wrong.
    """
    settings, wrong = with_settings(start, given)
    late = [name for name in _AT_THE_START if getattr(settings, name) != getattr(start, name)]
    wrong += [f"The setting '{name}' is read at startup only: give it in initializationOptions." for name in late]
    return replace(settings, **{name: getattr(start, name) for name in late}), wrong


def _wrong(name: str, value: object) -> str | None:
    """Return what is wrong with a setting; None for nothing."""
    if name not in _NAMES:
        near = get_close_matches(str(name), _NAMES, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"The settings are: {', '.join(_NAMES)}."
        return f"Unknown setting '{name}'. {hint}"
    wanted = _wanted(name, value)
    return f"The setting '{name}' can't be {value!r}; expected {wanted}." if wanted else None


def _wanted(name: str, value: object) -> str:
    """Return what a setting wants, where a value is not that; "" where it is."""
    built_in = getattr(Settings(), name)
    if name == "completion":
        return "" if value in COMPLETION else f"one of {', '.join(COMPLETION)}"
    if isinstance(built_in, tuple):
        return "" if _is_list_of_texts(value) else "a list of characters"
    if isinstance(built_in, bool):
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(built_in, int):
        least = int(name in _AT_LEAST_ONE)
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return "" if fits else f"a whole number, at least {least}"
    return "" if isinstance(value, str) else "a text"


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(one, str) for one in value)
