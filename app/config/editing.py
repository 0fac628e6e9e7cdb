"""Changes of one setting in the user's settings file; its comments and the order of its lines stay."""

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import tomlkit
from tomlkit.exceptions import TOMLKitError

from app.config.places import LARGEST, user_file
from app.config.schema import checked, names_of, settings_of, typed
from app.shell.text_encoding import decoded
from models.errors import LocalspecError, UsageError
from models.system.bounded_read import read_regular
from models.system.whole_file import write_whole

_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_ON, _OFF = ("on", "true", "yes"), ("off", "false", "no")


def write_setting(group: click.Group, command: str, key: str, text: str) -> Path:
    """Set a setting of a command in the user's file, or with an empty text remove it; return the file's path.

    A setting that the file has for all commands is changed there, any other one in the command's table. Raises
    UsageError for a value that its flag refuses, or a file with a mistake; LocalspecError if the file can't be written.
    Nothing is written then.
    """
    parameter = settings_of(group.commands[command])[key]
    path, before = user_file(), _text_of(user_file())
    after = _changed(
        before,
        command,
        tuple(dict.fromkeys((key, *names_of(parameter)))),
        _value(parameter, key, text) if text else None,
    )
    checked(tomllib.loads(after), group, str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, after)
    except OSError as error:
        hint = "Check the permissions of the folder, and the free space."
        raise LocalspecError(f"{path} can't be written.", cause=str(error), hint=hint) from error
    return path


def _text_of(path: Path) -> str:
    try:
        return decoded(read_regular(path, LARGEST), str(path), strict=True)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(f"{path} can't be read.", cause=str(error), hint="Fix it, or move it away.") from error


def _changed(text: str, command: str, names: tuple[str, ...], value: Any) -> str:
    """Return the text of a file with another value under one of some names; None removes it. Raises UsageError."""
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise UsageError("The settings file is not valid TOML.", cause=str(error), hint="Fix it first.") from error
    places = [place for place in (document.get(command), document) if isinstance(place, dict)]
    found = [(place, name) for place in places for name in names if name in place]
    for place, name in found if value is None else found[:1]:
        if value is None:
            del place[name]
        else:
            place[name] = value
    if value is not None and not found:
        if command not in document:
            document[command] = tomlkit.table()
        document[command][names[0]] = value
    return tomlkit.dumps(document)


def _value(parameter: click.Parameter, key: str, text: str) -> Any:
    """Return a typed value as TOML has it; raises UsageError for one that the parameter refuses."""
    value = _read(parameter, text)
    try:
        typed(parameter, key, value, "")
    except UsageError as error:
        raise UsageError(f"{key} can't be {text}.", cause=error.cause, hint=_expected(parameter, error)) from error
    return value


def _read(parameter: click.Parameter, text: str) -> Any:
    word = text.lower()
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return word in _ON if word in (*_ON, *_OFF) else text
    if parameter.multiple:
        return _list(text)
    is_text = isinstance(parameter.type, click.Path | click.types.StringParamType)
    if is_text or not _NUMBER.fullmatch(text):
        return text
    return float(text) if any(sign in word for sign in ".e") else int(text)


def _list(text: str) -> Any:
    """Return the values of a list in TOML, or one text that is no list."""
    if text.startswith("["):
        try:
            return tomllib.loads(f"list = {text}")["list"]
        except ValueError as error:
            hint = 'Several values look like: ["one", "two"]'
            raise UsageError(f"{text} is no list.", cause=str(error), hint=hint) from error
    return [text]


def _expected(parameter: click.Parameter, error: UsageError) -> str:
    """Return what to type instead; the hint of an error about a file does not fit here."""
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return "Expected on or off."
    return error.hint if error.hint.startswith("Expected") else ""
