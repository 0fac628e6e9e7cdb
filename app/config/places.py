"""Places of the settings files, and the theme in them; nothing is imported that the first picture would wait for."""

import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from app.shell.paths import project_folder
from app.shell.text_encoding import decoded
from models.errors import UsageError
from models.system.bounded_read import read_regular
from models.system.home import at_home

VARIABLE = "LOCALSPEC_CONFIG"
_PROJECT_FILE = ".localspec.toml"
LARGEST = 1 << 16
"""Maximum bytes of a settings file; `tomllib` would parse some larger ones for hours."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that settings can come from."""

    origin: str
    """Either "user" or "project"."""
    path: Path


def sources() -> tuple[Source, ...]:
    """Return the settings files for this place, whether they exist or not; later ones win.

    Raises OSError if the working directory was deleted, UsageError if the user's file can't be located.
    """
    return Source("user", user_file()), project_source()


def project_source(folder: Path | None = None) -> Source:
    """Return the project's file as seen from a folder, or from the working directory.

    Raises OSError if that folder was deleted.
    """
    return Source("project", project_folder(folder) / _PROJECT_FILE)


def sources_there() -> tuple[Source, ...]:
    """Return the settings files; only the user's if the working directory was deleted. Raises UsageError."""
    try:
        return sources()
    except OSError:
        return (Source("user", user_file()),)


def user_file() -> Path:
    """Return the user's file: LOCALSPEC_CONFIG, or config.toml in the system's settings folder. Raises UsageError."""
    if named := os.environ.get(VARIABLE):
        return at_home(named, VARIABLE)
    return Path(platformdirs.user_config_dir("localspec", appauthor=False)) / "config.toml"


def theme_in_files() -> str:
    """Return the value of `theme` for `run` in the settings files; "auto" where there is none, or a file has a mistake.

    `app.config.files.read_all` names the mistake.
    """
    theme: object = "auto"
    with suppress(OSError, ValueError, UsageError, RecursionError):
        for source in sources_there():
            theme = _theme(source, theme)
    return theme if isinstance(theme, str) else "auto"


def _theme(source: Source, otherwise: object) -> object:
    try:
        settings = tomllib.loads(decoded(read_regular(source.path, LARGEST), str(source.path), strict=True))
    except (FileNotFoundError, NotADirectoryError):
        return otherwise
    run = settings.get("run")
    own = run.get("theme") if isinstance(run, Mapping) else None
    return own or settings.get("theme") or otherwise
