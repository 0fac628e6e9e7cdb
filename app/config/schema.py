"""Valid settings: the flags of each command, by their long names, with their types."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from math import isfinite
from typing import Any

import click

from app.flags.declaring import SectionedOption
from models.errors import UsageError

_NEVER = frozenset(
    {
        "prompt", "file", "edit", "continue", "resume", "audit", "statistics", "prefix-file", "suffix-file", "context",
        "cursor", "grammar", "grammar-file", "json-schema", "json-schema-file", "suite",
    }
)  # fmt: skip
"""Flags about a single question or run: from a file they would apply to every one."""
_ARGUMENT = "model"
_KEYS = "keys"
"""Table of the chat screen's keys, an easier form of the flag --key of `run`."""
KEYS_PARAMETER = "key"
_BITS = 63
"""Bits of the largest TOML integer; Python reads longer ones, and can't print them all."""

_Known = Mapping[str, click.Parameter]
"""The settings of a command, by all keys that a file may use for them."""


def settings_of(command: click.Command) -> dict[str, click.Parameter]:
    """Return the settings of a command, each by one key: the longest name of its flag."""
    keys: dict[str, click.Parameter] = {}
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and parameter.name == _ARGUMENT:
            keys[_ARGUMENT] = parameter
        elif isinstance(parameter, SectionedOption) and not _NEVER & {*names_of(parameter)}:
            # -m equals the argument.
            keys.setdefault(max(names_of(parameter), key=len), parameter)
    return keys


def commands_of(group: click.Group) -> dict[str, click.Command]:
    """Return the commands that have settings."""
    return {name: command for name, command in group.commands.items() if settings_of(command)}


def checked(settings: Mapping[str, Any], group: click.Group, where: str) -> dict[str, dict[str, Any]]:
    """Return a file's settings for each command, with the names and types of its parameters.

    Keys outside a table apply to every command that has the flag and accepts the value; a command's own table wins.
    Raises UsageError for an unknown key, with the nearest known one, for a value that its flag refuses, and for a
    setting that is given twice.
    """
    commands = {name: _known(command) for name, command in commands_of(group).items()}
    _check_tables(settings, [*commands, _KEYS], where)
    settings = _with_keys(settings, where)
    found = _for_all({key: value for key, value in settings.items() if key not in commands}, commands, where)
    for name, known in commands.items():
        own, hint = (
            settings.get(name, {}),
            f"localspec {name} --help lists its flags. Flags about a single run can't be set in a file.",
        )
        for key in own:
            _check_known(key, known, f"{where}, [{name}]: unknown setting", hint)
        found[name] |= _values(known, own, f"{where}, [{name}]")
    return found


def _known(command: click.Command) -> _Known:
    return {name: parameter for key, parameter in settings_of(command).items() for name in (key, *names_of(parameter))}


def _check_tables(settings: Mapping[str, Any], tables: Collection[str], where: str) -> None:
    """Refuse an unknown table, and a value in place of a table; raises UsageError."""
    for name, value in settings.items():
        if isinstance(value, dict):
            _check_known(name, tables, f"{where}: unknown table", f"Tables: {', '.join(tables)}.")
        elif name in tables:
            hint = f"{name} is a table. Write [{name}] on a line, and its settings below."
            raise UsageError(f"{where}: {name} is {_shown(value)}.", hint=hint)


def _with_keys(settings: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the settings with the table of keys converted to its flag; raises UsageError."""
    if _KEYS not in settings:
        return settings
    run = settings.get("run", {})
    own = run.get(KEYS_PARAMETER, settings.get(KEYS_PARAMETER, []))
    written = [f"{name}={_joined(keys, f'{where}, [{_KEYS}]: {name}')}" for name, keys in _flat(settings[_KEYS])]
    rest = {key: value for key, value in settings.items() if key != _KEYS}
    return {**rest, "run": {**run, KEYS_PARAMETER: [*(own if isinstance(own, list) else [own]), *written]}}


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the entries of a table by their whole names: TOML turns an unquoted dot in a key into a nested table."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _joined(keys: Any, where: str) -> str:
    each = keys if isinstance(keys, list) else [keys]
    if not all(isinstance(one, str) for one in each):
        raise UsageError(f"{where} is {_shown(keys)}.", hint='Expected a key or a list of keys, as in "f12".')
    return ",".join(each)


def _for_all(common: Mapping[str, Any], commands: Mapping[str, _Known], where: str) -> dict[str, dict[str, Any]]:
    """Return the settings outside tables for each command; raises UsageError for one that no command accepts."""
    hint = f"Settings are the long flags of {', '.join(commands)}, without the dashes."
    for key, value in common.items():
        _check_known(key, {*commands}.union(*commands.values()), f"{where}: unknown setting", hint)
        parameters = [known[key] for known in commands.values() if key in known]
        if not any(_takes(parameter, key, value) for parameter in parameters):
            typed(parameters[0], key, value, where)
    return {
        name: _values(
            known,
            {key: value for key, value in common.items() if key in known and _takes(known[key], key, value)},
            where,
        )
        for name, known in commands.items()
    }


def _values(known: _Known, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return settings by the names of their parameters; raises UsageError."""
    found: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for key, value in values.items():
        name = str(known[key].name)
        if name in keys:
            hint = "Leave out one of the two."
            raise UsageError(f"{where}: {keys[name]} and {key} are two names for one setting.", hint=hint)
        keys[name], found[name] = key, typed(known[key], key, value, where)
    return found


def _takes(parameter: click.Parameter, key: str, value: Any) -> bool:
    try:
        typed(parameter, key, value, "")
    except UsageError:
        return False
    return True


def typed(parameter: click.Parameter, key: str, value: Any, where: str) -> Any:
    """Return a value in click's form, after a check that its parameter accepts it; raises UsageError."""
    if wanted := _lacking(parameter, value):
        raise UsageError(f"{where}: {key} is {_shown(value)}.", hint=f"Expected {wanted}.")
    written = [str(each) for each in value] if isinstance(value, list) else value if _is_flag(parameter) else str(value)
    written = [written] if parameter.multiple and not isinstance(written, list) else written
    try:
        parameter.type_cast_value(click.Context(click.Command(key)), written)
    except click.BadParameter as error:
        raise UsageError(f"{where}: {key} is {_shown(value)}.", cause=error.message, hint="Fix the file.") from error
    return written


def _lacking(parameter: click.Parameter, value: Any) -> str:
    """Return the kind of value that a parameter expects if this value has another kind; else ""."""
    if _is_flag(parameter):
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(value, list) and not parameter.multiple:
        return "one value"
    if value == [] and isinstance(parameter.default, list):
        # On the command line, no value means the default.
        return "at least one value"
    return _lacking_in(parameter, value if isinstance(value, list) else [value])


def _lacking_in(parameter: click.Parameter, each: Sequence[Any]) -> str:
    """Return the expected kind of the values of a list if one of them has another kind; "" if all fit."""
    if any(isinstance(one, bool | list | dict) or _is_huge(one) for one in each):
        return "a value"
    if any(isinstance(one, str) and "\0" in one for one in each):
        # Neither a flag nor a file name can contain it.
        return "a text without a null character"
    if any(isinstance(one, float) and not isfinite(one) for one in each):
        return "a finite number"
    # 100 would become the name of a file, and is meant for another flag of that name.
    is_file = isinstance(parameter.type, click.Path)
    return "the name of a file, in quotes" if is_file and not all(isinstance(one, str) for one in each) else ""


def _is_flag(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and bool(parameter.is_flag)


def _is_huge(value: Any) -> bool:
    return isinstance(value, int) and value.bit_length() > _BITS


def _shown(value: Any) -> str:
    """Return a value in a few words; nested values may be too long to show."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    if isinstance(value, bool):
        return repr(value).lower()
    return f"a number of more than {_BITS} bits" if _is_huge(value) else repr(value)


def _check_known(key: str, known: Collection[str], refusal: str, hint: str) -> None:
    if key in known:
        return
    near = get_close_matches(key, known, n=1)
    if key in _NEVER:
        hint = f"--{key} applies to a single run. Give it on the command line."
    elif near:
        hint = f"Did you mean '{near[0]}'?"
    raise UsageError(f"{refusal} '{key}'.", hint=hint)


def names_of(parameter: click.Parameter) -> list[str]:
    """Return the long names of a flag without the dashes; none for an argument."""
    return [name.removeprefix("--") for name in parameter.opts if name.startswith("--")]
