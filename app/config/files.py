"""Where settings come from: one file of the user's, one of the project's, which wins."""

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

import click
import platformdirs

from app.config.relative import seen_from
from app.config.schema import KEYS_PARAMETER, checked
from app.paths import project_folder
from models.errors import UsageError
from models.home import at_home

_VARIABLE = "LOCALSPEC_CONFIG"
_PROJECT_FILE = ".localspec.toml"
_LARGEST = 1 << 16
"""Bytes of a settings file; what is larger is no such file, and `tomllib` would read some of it for hours."""
_USERS = frozenset({"host", "api_key", "allow_host", "allow_origin", "card", "plot"})
"""Parameters that say who may ask a server, and which files are written: not for a folder that came from elsewhere."""
_PRIVATE = frozenset({"no_history", "no_memory"})
"""Those that keep nothing: such a folder may ask for that, and not take it back."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that settings can come from."""

    origin: str
    """Either "user" or "project"."""
    path: Path


def sources() -> tuple[Source, ...]:
    """Return the files that count here, there or not; later ones win.

    Raises OSError where "here" is gone, UsageError where the user's file can't be found.
    """
    return Source("user", user_file()), Source("project", project_folder() / _PROJECT_FILE)


def sources_there() -> tuple[Source, ...]:
    """Return the same where there is a working directory, else the user's file alone. Raises UsageError."""
    try:
        return sources()
    except OSError:
        return (Source("user", user_file()),)


def user_file() -> Path:
    """Return the user's file: LOCALSPEC_CONFIG, or config.toml where this system keeps settings. Raises UsageError."""
    if named := os.environ.get(_VARIABLE):
        return at_home(named, _VARIABLE)
    return Path(platformdirs.user_config_dir("localspec", appauthor=False)) / "config.toml"


def read(source: Source, group: click.Group) -> dict[str, dict[str, Any]]:
    """Return what a file says for each command, by parameter name; nothing where there is no file.

    Of a project's file what is the user's alone to say is passed over. Raises UsageError for one that can't be read, is
    no TOML, or says what no command understands.
    """
    folder = source.path.parent
    return {
        command: {
            name: seen_from(folder, name, value)
            for name, value in values.items()
            if not _is_passed_over(source, name, value)
        }
        for command, values in _said(source, group).items()
    }


def passed_over(group: click.Group, command: str | None = None) -> dict[Source, list[str]]:
    """Return the keys that files have, for one command or any, and may not say; raises UsageError as `read` does."""
    found = {}
    for source in sources_there():
        said = _said(source, group)
        settings = [setting for each in said if command in (None, each) for setting in said[each].items()]
        if over := {name.replace("_", "-") for name, value in settings if _is_passed_over(source, name, value)}:
            found[source] = sorted(over)
    return found


def _is_passed_over(source: Source, parameter: str, value: Any) -> bool:
    return source.origin != "user" and (parameter in _USERS or (parameter in _PRIVATE and value is False))


def _said(source: Source, group: click.Group) -> dict[str, dict[str, Any]]:
    try:
        return checked(parsed(source), group, str(source.path))
    except RecursionError as error:
        cause, hint = "Its lists or tables are nested too deeply.", "Fix it, or move it away."
        raise UsageError(f"{source.path} can't be read.", cause=cause, hint=hint) from error


def parsed(source: Source) -> dict[str, Any]:
    """Return what a file says, in TOML's types; nothing where there is no file.

    Raises UsageError for one that can't be read, is no TOML, or was named and is not there; RecursionError for one that
    nests too deeply.
    """
    try:
        text = _content(source).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError) as error:
        if source.origin == "user" and os.environ.get(_VARIABLE):
            raise _not_there(source.path) from error
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source.path} can't be read.", cause=str(error), hint="Fix it, or move it away.") from error
    try:
        return tomllib.loads(text)
    except ValueError as error:
        # Python's own refusal of a number of thousands of digits is none of TOML's.
        raise UsageError(
            f"{source.path} is not valid TOML.", cause=str(error), hint="Lines look like: temp = 0.2"
        ) from error


def _content(source: Source) -> bytes:
    """Read a file as far as one of settings may go; raises OSError, UsageError for what is larger or no file at all."""
    # A link in a project may lead to a device or a pipe, which may have no end; what the user names is the user's own.
    if source.origin != "user" and not S_ISREG(source.path.stat().st_mode):
        cause, hint = "It is no regular file.", "Move it away."
        raise UsageError(f"{source.path} can't be read.", cause=cause, hint=hint)
    with source.path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise UsageError(f"{source.path} is too large for a settings file.", hint="Move it away.")
    return content


def _not_there(path: Path) -> UsageError:
    return UsageError(
        f"{_VARIABLE} names {path}, which is not there.", hint=f"Create that file, or change {_VARIABLE}."
    )


def read_all(group: click.Group) -> dict[str, dict[str, Any]]:
    """Return what all files say together, for each command: click's `default_map`. Raises UsageError."""
    return together(read(source, group) for source in sources_there())


def together(said: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return what several files say, the later ones winning."""
    found: dict[str, dict[str, Any]] = {}
    for commands in said:
        for command, values in commands.items():
            held = found.setdefault(command, {})
            # Each key of the screen is a setting of its own: a project that changes one leaves the user's others.
            keys = [*held.get(KEYS_PARAMETER, []), *values.get(KEYS_PARAMETER, [])]
            held.update({**values, KEYS_PARAMETER: keys} if keys else values)
    return found
