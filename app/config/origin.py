"""Origins of settings in words, for errors about two contradictory ones."""

import click
from click.core import ParameterSource

from app.config.files import read
from app.config.places import sources_there


def places_of(one: str, other: str) -> str:
    """Return the origins of two parameters of the running command; "" if one is a default, or unknown."""
    context = click.get_current_context(silent=True)
    places = [_place(context, parameter) for parameter in (one, other)] if context else [""]
    return f"The first is set {places[0]}, the second {places[-1]}." if all(places) else ""


def _place(context: click.Context, parameter: str) -> str:
    source = context.get_parameter_source(parameter)
    if source is ParameterSource.COMMANDLINE:
        return "on the command line"
    return f"in {_file(context, parameter)}" if source is ParameterSource.DEFAULT_MAP else ""


def _file(context: click.Context, parameter: str) -> str:
    """Return the file that sets a parameter: the last one of several, which wins."""
    group, found = context.find_root().command, "a settings file"
    if isinstance(group, click.Group):
        for source in sources_there():
            if parameter in read(source, group).get(str(context.info_name), {}):
                found = str(source.path)
    return found
