"""Content of the settings files: the user's and the project's, of which the project's wins."""

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from errno import EFBIG
from pathlib import Path
from stat import S_ISFIFO
from typing import Any

import click

from app.config.places import LARGEST, VARIABLE, Source, sources_there
from app.config.relative import seen_from
from app.config.schema import KEYS_PARAMETER, checked
from app.config.trust import Trust, is_users_own, needs_trust, trust_of
from app.shell.text_encoding import decoded
from models.errors import UsageError
from models.system.bounded_read import UnfitFile, read_regular, read_stream

_SPELLED = {
    "prediction": "predict",
    "predict": "n-predict",
    "as_json": "json",
    "classes": "class",
    "model_option": "model",
}
"""Keys that differ from their parameters' names."""


def read(source: Source, group: click.Group) -> dict[str, dict[str, Any]]:
    """Return the settings of a file for each command, by parameter name; none for a missing file.

    Two kinds of a project's settings are left out: those that only the user's file may have, and those that wait until
    the file is trusted. Raises UsageError for a file that can't be read, is not TOML, or has a setting that no command
    understands.
    """
    folder, found = source.path.parent, inspect(source, group)
    return {
        command: {name: seen_from(folder, name, value) for name, value in values.items() if found.counts(name, value)}
        for command, values in found.by_command.items()
    }


@dataclass(frozen=True, slots=True)
class Inspected:
    """A settings file with its content, settings and trust."""

    source: Source
    content: bytes | None
    """Its bytes; None for a missing file."""
    by_command: Mapping[str, Mapping[str, Any]]
    """Settings for each command, by parameter name."""
    trust: Trust
    """The trust in a project's file; the user's own file is trusted."""

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
        """Return the keys, for one command or any, that count only in a trusted file."""
        return self._keys(command, self._is_guarded)

    def settings(self) -> list[tuple[str, Any]]:
        """Return every key with its value, each pair once for all commands."""
        pairs = [(_key(name), value) for values in self.by_command.values() for name, value in values.items()]
        return [pair for place, pair in enumerate(pairs) if pair not in pairs[:place]]

    def _keys(self, command: str | None, has: Callable[[str, object], bool]) -> list[str]:
        chosen = [values for each, values in self.by_command.items() if command in (None, each)]
        return sorted({_key(name) for values in chosen for name, value in values.items() if has(name, value)})

    def _is_users(self, parameter: str, value: object) -> bool:
        return self.source.origin != "user" and is_users_own(parameter, value)

    def _is_guarded(self, parameter: str, value: object) -> bool:
        return self.source.origin != "user" and not is_users_own(parameter, value) and needs_trust(parameter, value)

    def _waits(self, parameter: str, value: object) -> bool:
        return self.trust is not Trust.TRUSTED and self._is_guarded(parameter, value)


def inspect(source: Source, group: click.Group) -> Inspected:
    """Read a file and the trust in these bytes; raises UsageError as `read` does."""
    try:
        content = _content(source)
        by_command = checked(_parsed(source.path, content), group, str(source.path))
    except RecursionError as error:
        cause, hint = "Its lists or tables are nested too deeply.", "Fix it, or move it away."
        raise UsageError(f"{source.path} can't be read.", cause=cause, hint=hint) from error
    is_users = source.origin == "user"
    trust = Trust.TRUSTED if is_users else trust_of(source.path, content or b"")
    return Inspected(source, content, by_command, trust)


def passed_over(group: click.Group, command: str | None = None) -> dict[Source, list[str]]:
    """Return the ignored keys of all files, for one command or any; raises UsageError as `read` does."""
    found = {source: inspect(source, group).users_own(command) for source in sources_there()}
    return {source: over for source, over in found.items() if over}


def _key(parameter: str) -> str:
    return _SPELLED.get(parameter, parameter.replace("_", "-"))


def parsed(source: Source) -> dict[str, Any]:
    """Return the parsed TOML of a file; empty for a missing file.

    Raises UsageError for a file that can't be read, is not TOML, or was named and does not exist; RecursionError for
    one that nests too deeply.
    """
    return _parsed(source.path, _content(source))


def _parsed(path: Path, content: bytes | None) -> dict[str, Any]:
    text = decoded(content or b"", str(path), strict=True)
    try:
        return tomllib.loads(text)
    except ValueError as error:
        # Python refuses numbers of thousands of digits with an error that is not TOML's.
        raise UsageError(f"{path} is not valid TOML.", cause=str(error), hint="Lines look like: temp = 0.2") from error


def _content(source: Source) -> bytes | None:
    """Return the bytes of a settings file; None for a missing one. Raises UsageError for an unsuitable file."""
    path = source.path
    try:
        if source.origin == "user" and not S_ISFIFO(path.stat().st_mode):
            # A device is read up to the maximum size of a settings file.
            with path.open("rb") as file:
                return read_stream(file, LARGEST)
        return read_regular(path, LARGEST)
    except (FileNotFoundError, NotADirectoryError) as error:
        if source.origin == "user" and os.environ.get(VARIABLE):
            raise _not_there(path) from error
        return None
    except UnfitFile as error:
        if error.errno == EFBIG:
            title, cause = f"{path} is too large for a settings file.", f"{error.strerror}."
        else:
            title, cause = f"{path} can't be read.", "It is not a regular file."
        raise UsageError(title, cause=cause, hint="Move it away.") from error
    except OSError as error:
        raise UsageError(f"{path} can't be read.", cause=str(error), hint="Fix it, or move it away.") from error


def _not_there(path: Path) -> UsageError:
    return UsageError(
        f"{VARIABLE} names {path}, which does not exist.", hint=f"Create that file, or change {VARIABLE}."
    )


def read_all(group: click.Group) -> dict[str, dict[str, Any]]:
    """Return the settings of all files for each command, as click's `default_map`. Raises UsageError."""
    return together(read(source, group) for source in sources_there())


def together(by_command: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the merged settings of several files; later files win."""
    found: dict[str, dict[str, Any]] = {}
    for commands in by_command:
        for command, values in commands.items():
            held = found.setdefault(command, {})
            # Each key of the screen merges by itself: a project that rebinds one keeps the user's other keys.
            keys = [*held.get(KEYS_PARAMETER, []), *values.get(KEYS_PARAMETER, [])]
            held.update({**values, KEYS_PARAMETER: keys} if keys else values)
    return found
