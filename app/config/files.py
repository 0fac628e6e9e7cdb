"""Where settings come from: one file of the user's, one of the project's, which wins."""

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import platformdirs

from app.config.schema import KEYS_PARAMETER, checked
from app.paths import project_folder
from models.errors import UsageError

_PROJECT_FILE = ".localspec.toml"
_LARGEST = 1 << 20
"""Bytes of a settings file; what is larger is no such file."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that settings can come from."""

    origin: str
    """Either "user" or "project"."""
    path: Path


def sources() -> tuple[Source, ...]:
    """Return the files that count here, there or not; later ones win. Raises OSError where "here" is gone."""
    return Source("user", user_file()), Source("project", project_folder() / _PROJECT_FILE)


def sources_there() -> tuple[Source, ...]:
    """Return the same where there is a working directory, else the user's file alone."""
    try:
        return sources()
    except OSError:
        return (Source("user", user_file()),)


def user_file() -> Path:
    """Return the user's file: LOCALSPEC_CONFIG, or config.toml where this system keeps settings."""
    if named := os.environ.get("LOCALSPEC_CONFIG"):
        return Path(named).expanduser()
    return Path(platformdirs.user_config_dir("localspec", appauthor=False)) / "config.toml"


def read(source: Source, group: click.Group) -> dict[str, dict[str, Any]]:
    """Return what a file says for each command, by parameter name; nothing where there is no file.

    Raises UsageError for one that can't be read, is no TOML, or says what no command understands.
    """
    try:
        if source.path.stat().st_size > _LARGEST:
            raise UsageError(f"{source.path} is too large for settings.", hint="Move it away.")
        text = source.path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source.path} can't be read.", cause=str(error), hint="Mend it, or move it away.") from error
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{source.path} is no TOML.", cause=str(error), hint="It has lines like: temp = 0.2"
        ) from error
    return checked(said, group, str(source.path))


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
