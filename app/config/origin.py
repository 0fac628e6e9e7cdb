"""Where settings come from, in words, for a refusal of two that contradict each other."""

import click
from click.core import ParameterSource

from app.config.files import read, sources_there


def places_of(one: str, other: str) -> str:
    """Return where the running command has two parameters from; "" where one is a default, or nothing is known."""
    context = click.get_current_context(silent=True)
    places = [_place(context, parameter) for parameter in (one, other)] if context else [""]
    return f"The first is {places[0]}, the second {places[-1]}." if all(places) else ""


def _place(context: click.Context, parameter: str) -> str:
    source = context.get_parameter_source(parameter)
    if source is ParameterSource.COMMANDLINE:
        return "on the command line"
    return f"in {_file(context, parameter)}" if source is ParameterSource.DEFAULT_MAP else ""


def _file(context: click.Context, parameter: str) -> str:
    """Return the file that says a parameter: of several the last, which wins."""
    group, found = context.find_root().command, "a settings file"
    if isinstance(group, click.Group):
        for source in sources_there():
            if parameter in read(source, group).get(str(context.info_name), {}):
                found = str(source.path)
    return found
