"""Where settings come from: one file of the user's, one of the project's, which wins."""

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from errno import EFBIG
from pathlib import Path
from stat import S_ISFIFO
from typing import Any

import click
import platformdirs

from app.config.relative import seen_from
from app.config.schema import KEYS_PARAMETER, checked
from app.config.trust import Trust, is_users_own, needs_trust, trust_of
from app.shell.paths import project_folder
from models.errors import UsageError
from models.system.bounded_read import UnfitFile, read_regular, read_stream
from models.system.home import at_home

_VARIABLE = "LOCALSPEC_CONFIG"
_PROJECT_FILE = ".localspec.toml"
_LARGEST = 1 << 16
"""Bytes of a settings file; what is larger is no such file, and `tomllib` would read some of it for hours."""
_SPELLED = {
    "prediction": "predict",
    "predict": "n-predict",
    "as_json": "json",
    "classes": "class",
    "model_option": "model",
}
"""Keys that are not their parameters' names."""


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
    return Source("user", user_file()), project_source()


def project_source(folder: Path | None = None) -> Source:
    """Return the project's file as seen from a folder, or from the working directory.

    Raises OSError where that is gone.
    """
    return Source("project", project_folder(folder) / _PROJECT_FILE)


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

    Of a project's file two kinds of settings are left out: those that only the user's file may have, and those that
    wait until the file is trusted. Raises UsageError for a file that can't be read, is no TOML, or says what no command
    understands.
    """
    folder, found = source.path.parent, inspect(source, group)
    return {
        command: {name: seen_from(folder, name, value) for name, value in values.items() if found.counts(name, value)}
        for command, values in found.said.items()
    }


@dataclass(frozen=True, slots=True)
class Inspected:
    """A settings file as it was read, with what of it counts."""

    source: Source
    content: bytes | None
    """Its bytes; None where there is no file."""
    said: Mapping[str, Mapping[str, Any]]
    """For each command its settings, by parameter name."""
    trust: Trust
    """The decision about a project's file; the user's own is trusted."""

    def counts(self, parameter: str, value: object) -> bool:
        """Tell whether a setting of this file counts."""
        return not (self._is_users(parameter, value) or self._waits(parameter, value))

    def users_own(self, command: str | None = None) -> list[str]:
        """Return the keys, for one command or any, that only the user's file may have."""
        return self._keys(command, self._is_users)

    def waiting(self, command: str | None = None) -> list[str]:
        """Return the keys, for one command or any, that are ignored until the file is trusted."""
        return self._keys(command, self._waits)

    def guarded(self, command: str | None = None) -> list[str]:
        """Return the keys, for one command or any, that count in a trusted file alone."""
        return self._keys(command, self._is_guarded)

    def settings(self) -> list[tuple[str, Any]]:
        """Return every key with its value, each pair once, whichever command it is for."""
        said = [(_key(name), value) for values in self.said.values() for name, value in values.items()]
        return [pair for place, pair in enumerate(said) if pair not in said[:place]]

    def _keys(self, command: str | None, has: Callable[[str, object], bool]) -> list[str]:
        chosen = [self.said[each] for each in self.said if command in (None, each)]
        return sorted({_key(name) for values in chosen for name, value in values.items() if has(name, value)})

    def _is_users(self, parameter: str, value: object) -> bool:
        return self.source.origin != "user" and is_users_own(parameter, value)

    def _is_guarded(self, parameter: str, value: object) -> bool:
        return self.source.origin != "user" and not is_users_own(parameter, value) and needs_trust(parameter, value)

    def _waits(self, parameter: str, value: object) -> bool:
        return self.trust is not Trust.TRUSTED and self._is_guarded(parameter, value)


def inspect(source: Source, group: click.Group) -> Inspected:
    """Read a file and the decision about these very bytes; raises UsageError as `read` does."""
    try:
        content = _content(source)
        said = checked(_parsed(source.path, content), group, str(source.path))
    except RecursionError as error:
        cause, hint = "Its lists or tables are nested too deeply.", "Fix it, or move it away."
        raise UsageError(f"{source.path} can't be read.", cause=cause, hint=hint) from error
    is_users = source.origin == "user"
    trust = Trust.TRUSTED if is_users else trust_of(source.path, content or b"")
    return Inspected(source, content, said, trust)


def passed_over(group: click.Group, command: str | None = None) -> dict[Source, list[str]]:
    """Return the keys that files have, for one command or any, and may not say; raises UsageError as `read` does."""
    found = {source: inspect(source, group).users_own(command) for source in sources_there()}
    return {source: over for source, over in found.items() if over}


def _key(parameter: str) -> str:
    return _SPELLED.get(parameter, parameter.replace("_", "-"))


def parsed(source: Source) -> dict[str, Any]:
    """Return what a file says, in TOML's types; nothing where there is no file.

    Raises UsageError for one that can't be read, is no TOML, or was named and is not there; RecursionError for one that
    nests too deeply.
    """
    return _parsed(source.path, _content(source))


def _parsed(path: Path, content: bytes | None) -> dict[str, Any]:
    try:
        return tomllib.loads((content or b"").decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} can't be read.", cause=str(error), hint="Fix it, or move it away.") from error
    except ValueError as error:
        # Python's own refusal of a number of thousands of digits is none of TOML's.
        raise UsageError(f"{path} is not valid TOML.", cause=str(error), hint="Lines look like: temp = 0.2") from error


def _content(source: Source) -> bytes | None:
    """Return the bytes of a settings file; None where there is none. Raises UsageError for what can't be one."""
    path = source.path
    try:
        if source.origin == "user" and not S_ISFIFO(path.stat().st_mode):
            # A device that the user names is read as far as a settings file goes.
            with path.open("rb") as file:
                return read_stream(file, _LARGEST)
        return read_regular(path, _LARGEST)
    except (FileNotFoundError, NotADirectoryError) as error:
        if source.origin == "user" and os.environ.get(_VARIABLE):
            raise _not_there(path) from error
        return None
    except UnfitFile as error:
        if error.errno == EFBIG:
            title, cause = f"{path} is too large for a settings file.", f"{error.strerror}."
        else:
            title, cause = f"{path} can't be read.", "It is no regular file."
        raise UsageError(title, cause=cause, hint="Move it away.") from error
    except OSError as error:
        raise UsageError(f"{path} can't be read.", cause=str(error), hint="Fix it, or move it away.") from error


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
