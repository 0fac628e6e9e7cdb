"""The editor's settings, at startup and while running."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

SECTION = "localspec"
"""Name of the table of these settings, among those of other servers."""
COMPLETION = ("auto", "on", "off")
_AT_LEAST_ONE = ("max_tokens", "time_limit_ms")
_AT_THE_START = ("completion", "trigger")


@dataclass(frozen=True, slots=True)
class Settings:
    """Models, limits and times of completions."""

    model: str = ""
    """The target; "": as on the command line."""
    draft: str = ""
    """The drafter; "": as on the command line."""
    context: int = 0
    """Context size in tokens; 0: as on the command line."""
    debounce_ms: int = 150
    """Milliseconds without a key before an automatic completion starts."""
    max_lines: int = 0
    """Maximum lines of a completion, without empty ones; 0: no limit."""
    max_tokens: int = 128
    time_limit_ms: int = 1000
    """Milliseconds to generate; the first line is always completed, a later incomplete line is dropped."""
    prefix_lines: int = 256
    """Lines before the cursor that the model reads."""
    suffix_lines: int = 64
    prefetch: bool = True
    """Whether to compute the next completion while one is shown."""
    completion: str = "auto"
    """Whether to answer plain requests; "auto": for editors without inline ones. Read only at startup."""
    trigger: tuple[str, ...] = ()
    """Characters that trigger a plain request. Read only at startup."""


_NAMES = [field.name for field in fields(Settings)]


def with_settings(settings: Settings, given: object) -> tuple[Settings, list[str]]:
    """Return the settings changed by the editor's values, and an error sentence for each invalid one.

    If there is a table "localspec", only that is read; tables of other names belong to other servers.
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
    """Return the settings changed while running, and errors, as `with_settings` does.

    Settings that the editor needs before its first request stay as at startup; other values for them are errors.
    """
    settings, wrong = with_settings(start, given)
    late = [name for name in _AT_THE_START if getattr(settings, name) != getattr(start, name)]
    wrong += [f"The setting '{name}' is read at startup only: give it in initializationOptions." for name in late]
    return replace(settings, **{name: getattr(start, name) for name in late}), wrong


def _wrong(name: str, value: object) -> str | None:
    """Return the error of a setting; None for a valid one."""
    if name not in _NAMES:
        near = get_close_matches(str(name), _NAMES, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"The settings are: {', '.join(_NAMES)}."
        return f"Unknown setting '{name}'. {hint}"
    wanted = _wanted(name, value)
    return f"The setting '{name}' can't be {value!r}; expected {wanted}." if wanted else None


def _wanted(name: str, value: object) -> str:
    """Return the expected kind of value if a setting's value has another kind; "" for a valid one."""
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
