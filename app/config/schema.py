"""What a settings file may say: the flags of each command, by their long names, with the types they have there."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import click

from app.options import SectionedOption
from models.errors import UsageError

_NEVER = frozenset(
    {"prompt", "file", "continue", "resume", "audit", "statistics", "prefix-file", "suffix-file", "context", "cursor"}
)
"""Flags that are about one question, or one run: in a file they would answer it every day."""
_ARGUMENT = "model"
_KEYS = "keys"
"""Table of the chat screen's keys: the flag --key of `run`, in a form that is easier to write."""
KEYS_PARAMETER = "key"


def settings_of(command: click.Command) -> dict[str, click.Parameter]:
    """Return what can be set for a command, by the key that a file has for it."""
    keys: dict[str, click.Parameter] = {}
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and parameter.name == _ARGUMENT:
            keys[_ARGUMENT] = parameter
        elif isinstance(parameter, SectionedOption) and _key(parameter) not in _NEVER:
            # -m says the same as the argument.
            keys.setdefault(_key(parameter), parameter)
    return keys


def commands_of(group: click.Group) -> dict[str, click.Command]:
    """Return the commands that take settings."""
    return {name: command for name, command in group.commands.items() if settings_of(command)}


def checked(said: Mapping[str, Any], group: click.Group, where: str) -> dict[str, dict[str, Any]]:
    """Return, for each command, what a file says, in the names and types of its parameters.

    Keys outside a table are for every command that has such a flag, and a command's own table wins. Raises UsageError
    for a key nobody has, with the nearest that somebody has, and for a value that its flag would refuse.
    """
    commands = commands_of(group)
    said = _with_keys(said)
    common = {key: value for key, value in said.items() if not isinstance(value, dict)}
    everywhere = {key for command in commands.values() for key in settings_of(command)}
    for key in common:
        _check_known(key, [*everywhere, *commands], where)
    for name in set(said) - set(common):
        _check_known(name, list(commands), where, kind="table")
    return {
        name: dict(_values(command, {**common, **said.get(name, {})}, said.get(name, {}), f"{where}, [{name}]"))
        for name, command in commands.items()
    }


def _with_keys(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a file says with its table of keys as the flag that means the same."""
    if not isinstance(said.get(_KEYS), dict):
        return said
    own = said.get("run")
    run = own if isinstance(own, dict) else {}
    written = [f"{name}={_joined(keys)}" for name, keys in _flat(said[_KEYS])]
    rest = {key: value for key, value in said.items() if key != _KEYS}
    return {**rest, "run": {**run, KEYS_PARAMETER: [*run.get(KEYS_PARAMETER, []), *written]}}


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the entries of a table by their whole names: an unquoted dot in a key makes a table within it."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _joined(keys: Any) -> str:
    return ",".join(map(str, keys)) if isinstance(keys, list) else str(keys)


def _values(
    command: click.Command, values: Mapping[str, Any], own: Mapping[str, Any], where: str
) -> Iterator[tuple[str, Any]]:
    known = settings_of(command)
    for key in own:
        _check_known(key, list(known), where)
    for key, value in values.items():
        if key in known:
            parameter = known[key]
            assert parameter.name is not None, "click names every parameter"
            yield parameter.name, _converted(parameter, key, value, where)


def _converted(parameter: click.Parameter, key: str, value: Any, where: str) -> Any:
    """Return a value as click will want it, having seen that it takes it."""
    if isinstance(value, dict) or (isinstance(value, bool) is not _is_flag(parameter)):
        wanted = "true or false" if _is_flag(parameter) else "a value"
        raise UsageError(f"{where}: {key} is {_shown(value)}.", hint=f"It wants {wanted}.")
    if isinstance(value, list) and not parameter.multiple:
        raise UsageError(f"{where}: {key} is a list.", hint="It wants one value.")
    written = [str(each) for each in value] if isinstance(value, list) else value if _is_flag(parameter) else str(value)
    written = [written] if parameter.multiple and not isinstance(written, list) else written
    try:
        parameter.type_cast_value(click.Context(click.Command(key)), written)
    except click.BadParameter as error:
        raise UsageError(f"{where}: {key} is {_shown(value)}.", cause=error.message, hint="Mend the file.") from error
    return written


def _is_flag(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and bool(parameter.is_flag)


def _shown(value: Any) -> str:
    return repr(value).lower() if isinstance(value, bool) else repr(value)


def _check_known(key: str, known: list[str], where: str, kind: str = "setting") -> None:
    if key not in known:
        near = get_close_matches(key, known, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else "Every flag of a command's --help is one, without the dashes."
        raise UsageError(f"{where}: there is no {kind} '{key}'.", hint=hint)


def _key(option: click.Option) -> str:
    """Return the key of a flag: its longest name without the dashes."""
    return max((name for name in option.opts if name.startswith("--")), key=len).removeprefix("--")
