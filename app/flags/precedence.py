"""Flags on the command line, and settings of files and variables that they override."""

from collections.abc import Mapping

import click
from click.core import ParameterSource

from models.errors import UsageError
from models.library.catalog import is_same_model
from models.library.names import PAIR

_CHAT = ("system_prompt", "raw", "special", "prediction", "as_json", "plain")
_GIVING_WAY: Mapping[str, tuple[str, ...]] = {
    "strict": ("allow_rounding",),
    "allow_rounding": ("strict",),
    "card": ("no_card",),
    "no_card": ("card",),
    "edit": _CHAT,
}
"""Parameters, each with those that contradict it."""


def was_given(context: click.Context, parameter: str) -> bool:
    """Tell whether a value was given on the command line, not by a file or a variable."""
    return context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def given_flags(context: click.Context) -> dict[str, str]:
    """Return the flags on the command line, by the names of their parameters."""
    options = [each for each in context.command.params if isinstance(each, click.Option)]
    return {str(each.name): max(each.opts, key=len) for each in options if was_given(context, str(each.name))}


def check_one_model(context: click.Context) -> None:
    """Refuse two models on the command line; raises UsageError. In `run`, the first word may be a prompt instead."""
    given = [context.params[name] for name in ("model", "model_option") if was_given(context, name)]
    if len(given) > 1 and "prompt" not in context.params and not context.params.get("audit"):
        refuse_two_models(*given)


def refuse_two_models(argument: str, option: str, hint: str = "Leave out one of the two.") -> None:
    """Raise UsageError if an argument and -m name two different models."""
    if not is_same_model(argument, option):
        raise UsageError(f"{argument} and -m {option} name two models, and only one can be loaded.", hint=hint)


def give_way(context: click.Context) -> None:
    """Reset settings that contradict the command line to their built-in values."""
    given = {name: value for name, value in context.params.items() if was_given(context, name) and value}
    giving = {other for name in given for other in _GIVING_WAY.get(name, ())}
    if any(given[name].startswith(PAIR) for name in ("model", "model_option") if name in given):
        # A pair has its own draft model.
        giving.add("draft")
    # A bare context knows no settings file.
    bare = click.Context(context.command)
    for parameter in context.command.params:
        if parameter.name in giving and not was_given(context, parameter.name):
            built_in = parameter.get_default(bare)
            # click marks a missing default with a value of its own.
            context.params[parameter.name] = built_in if isinstance(built_in, bool | str) else None
