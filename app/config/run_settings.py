"""Settings of the running command, each with its explanation, value and origin."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from app.config.command import settings
from app.config.schema import settings_of
from models.errors import UsageError

_MODEL_HELP = "The model: a .gguf file, or a name that `localspec models ls` shows."
_MODEL_SECTION = "Model and machine"
_ON_OFF = ("on", "off")
FLAG, BUILT_IN = "flag", "built-in"
"""Origins beside those of `app.config.command.Setting`: the command line of this run, and the default."""


@dataclass(frozen=True, slots=True)
class RunSetting:
    """One setting of a command."""

    key: str
    """Its name in a settings file."""
    section: str
    """Section of the command's help."""
    help: str
    value: Any
    origin: str
    """One of "flag", "environment", "project", "user" or "built-in"."""
    default: Any
    choices: tuple[str, ...] = ()
    """All values that it can have; () for any text or number."""
    variable: str = ""
    """Environment variable that wins over the files; "": none."""
    multiple: bool = False
    """Whether it is a list."""


def run_settings() -> list[RunSetting]:
    """Return the settings of the running command in the order of its help; values of files as they are now.

    Raises UsageError for a file or a variable with a mistake, or outside a command.
    """
    context = running_command()
    group = context.find_root().command
    assert isinstance(group, click.Group), "a command belongs to the group of all commands"
    known = {one.key: one for one in settings(group) if one.command == context.info_name}
    found = []
    for key, parameter in settings_of(context.command).items():
        one = known[key]
        is_flag = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        value, origin = (context.params.get(str(parameter.name)), FLAG) if is_flag else (one.value, one.origin)
        found.append(_setting(context, key, parameter, value, origin))
    return found


def running_command() -> click.Context:
    """Return the context of the running command; raises UsageError outside one."""
    context = click.get_current_context(silent=True)
    if context is None:
        raise UsageError(
            "This program was not started by a command, so it has no settings.", hint="Start it with: localspec run"
        )
    return context


def setting_words(value: Any) -> str:
    """Return a value as it is written on the screen: "on", "off", a text, or values between commas; "": none."""
    if isinstance(value, bool):
        return _ON_OFF[0] if value else _ON_OFF[1]
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def origin_words(setting: RunSetting) -> str:
    """Return the origin of a value in a few words."""
    words: Mapping[str, str] = {
        FLAG: "command line",
        "environment": f"variable {setting.variable}".rstrip(),
        "project": "project file",
        "user": "your file",
        BUILT_IN: "default",
    }
    return words[setting.origin]


def _setting(context: click.Context, key: str, parameter: click.Parameter, value: Any, origin: str) -> RunSetting:
    variable = parameter.envvar
    return RunSetting(
        key,
        getattr(parameter, "section", _MODEL_SECTION),
        getattr(parameter, "help", None) or _MODEL_HELP,
        value,
        origin,
        # A context of its own: that of the run has the values of files as defaults.
        parameter.get_default(click.Context(context.command)),
        _choices(parameter),
        variable if isinstance(variable, str) else "",
        parameter.multiple,
    )


def _choices(parameter: click.Parameter) -> tuple[str, ...]:
    if isinstance(parameter.type, click.Choice):
        return tuple(map(str, parameter.type.choices))
    return _ON_OFF if isinstance(parameter, click.Option) and parameter.is_flag else ()
