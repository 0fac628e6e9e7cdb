"""`localspec config`: every setting with its value, and who said so."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import click
from click.core import ParameterSource

from app.config.files import passed_over, read, sources_there, together
from app.config.schema import commands_of, settings_of
from app.terminal import Terminal
from models.errors import UsageError

_BUILT_IN = "built-in"
_HIDDEN = "(set)"
"""Stands for a value that is not to be seen."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as it stands here and now."""

    command: str
    key: str
    value: Any
    origin: str
    """One of "environment", "project", "user" or "built-in"."""


def show_settings(group: click.Group, *, everything: bool, as_json: bool) -> None:
    """Print the settings that differ from what is built in, or all; raises UsageError for a file that is wrong."""
    terminal, over = Terminal(), passed_over(group)
    found = [setting for setting in settings(group) if everything or setting.origin != _BUILT_IN]
    if as_json:
        files = [
            {"origin": source.origin, "path": str(source.path), "passed_over": over.get(source, [])}
            for source in sources_there()
        ]
        record = {"type": "config", "files": files, "settings": [asdict(setting) for setting in found]}
        terminal.say_record(record, default=str)
        return
    for source in sources_there():
        there = "" if source.path.exists() else " (not there)"
        terminal.say(f"# {source.origin}: {source.path}{there}\n")
        if source in over:
            terminal.say(f"#   ignored: {', '.join(over[source])}; only the user's settings may set it\n")
    width = max((len(f"{setting.command}.{setting.key}") for setting in found), default=0)
    for setting in found:
        name = f"{setting.command}.{setting.key}"
        terminal.say(f"{name:<{width}}  {_shown(setting.value)}  # {setting.origin}\n")


def settings(group: click.Group) -> list[Setting]:
    """Return every setting of every command, with its origin; a flag given to a run wins over all of them."""
    said = [(source.origin, read(source, group)) for source in sources_there()]
    defaults = together(values for _, values in said)
    found: list[Setting] = []
    for name, command in commands_of(group).items():
        origins = {parameter: origin for origin, values in said for parameter in values.get(name, {})}
        # Asked with no flags, click itself says what holds.
        try:
            context = command.make_context(name, [], default_map=defaults.get(name))
        except click.BadParameter as error:
            # The files were seen to be right: what is left is the environment.
            raise UsageError(error.format_message(), hint="Change or unset the variable.") from error
        found += (
            _setting(context, key, str(parameter.name), origins) for key, parameter in settings_of(command).items()
        )
    return found


def _setting(context: click.Context, key: str, parameter: str, origins: Mapping[str, str]) -> Setting:
    from_environment = context.get_parameter_source(parameter) is ParameterSource.ENVIRONMENT
    origin = "environment" if from_environment else origins.get(parameter, _BUILT_IN)
    value = context.params[parameter]
    return Setting(str(context.info_name), key, _HIDDEN if value and _is_secret(context, parameter) else value, origin)


def _is_secret(context: click.Context, parameter: str) -> bool:
    return any(getattr(one, "hide_input", False) for one in context.command.params if one.name == parameter)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return json.dumps(list(value), ensure_ascii=False)
    return "-" if value is None else json.dumps(value, ensure_ascii=False, default=str)
