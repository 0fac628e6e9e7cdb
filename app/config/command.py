"""`localspec config`: every setting with its value and origin."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import click
from click.core import ParameterSource

from app.config.files import Inspected, inspect, read, together
from app.config.places import sources_there
from app.config.schema import commands_of, settings_of
from app.config.trust import trusted_files
from app.config.words import value_text
from app.shell.safe_text import one_line
from app.shell.terminal import Terminal
from models.errors import UsageError

_BUILT_IN = "built-in"
_HIDDEN = "(set)"
"""Placeholder for a secret value."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting with its value and origin."""

    command: str
    key: str
    value: Any
    origin: str
    """One of "environment", "project", "user" or "built-in"."""


def show_settings(group: click.Group, *, everything: bool, as_json: bool) -> None:
    """Print the settings that differ from the built-in ones, or all; raises UsageError for a file with a mistake."""
    terminal, files = Terminal(), [inspect(source, group) for source in sources_there()]
    found = [setting for setting in settings(group) if everything or setting.origin != _BUILT_IN]
    if as_json:
        record = {
            "type": "config",
            "files": [_file_record(file) for file in files],
            "trusted": trusted_files(),
            "settings": [asdict(setting) for setting in found],
        }
        terminal.say_record(record, default=str)
        return
    for file in files:
        for line in _file_lines(file):
            terminal.say(f"# {line}\n")
    for path in trusted_files():
        terminal.say(f"# trusted: {one_line(path)}\n")
    width = max((len(f"{setting.command}.{setting.key}") for setting in found), default=0)
    for setting in found:
        name = f"{setting.command}.{setting.key}"
        terminal.say(f"{name:<{width}}  {value_text(setting.value)}  # {setting.origin}\n")


def settings(group: click.Group) -> list[Setting]:
    """Return every setting of every command with its origin; flags of a run override all of them."""
    by_origin = [(source.origin, read(source, group)) for source in sources_there()]
    defaults = together(values for _, values in by_origin)
    found: list[Setting] = []
    for name, command in commands_of(group).items():
        origins = {parameter: origin for origin, values in by_origin for parameter in values.get(name, {})}
        # Called without flags, click itself resolves the effective value.
        try:
            context = command.make_context(name, [], default_map=defaults.get(name))
        except click.BadParameter as error:
            # The files were checked before, so the mistake is in the environment.
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


def _file_record(file: Inspected) -> dict[str, Any]:
    """Return a settings file as an object for `--json`."""
    trust = str(file.trust) if file.source.origin != "user" and file.content is not None else None
    return {
        "origin": file.source.origin,
        "path": str(file.source.path),
        "passed_over": file.users_own(),
        "trust": trust,
        "untrusted": file.waiting(),
    }


def _file_lines(file: Inspected) -> list[str]:
    """Return the lines about a settings file, with its ignored keys."""
    path = file.source.path
    lines = [f"{file.source.origin}: {path}{'' if path.exists() else ' (no such file)'}"]
    if own := file.users_own():
        lines.append(f"  ignored: {', '.join(own)}; only the user's settings file may set this")
    if waiting := file.waiting():
        way = f"localspec config trust {shlex.quote(str(path.parent))}"
        lines.append(f"  ignored until the file is trusted: {', '.join(waiting)}; to trust it: {way}")
    return lines
