"""What was said on the command line, and what gives way to it of what files and the environment say."""

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
    """Tell whether a value stands on the command line, and is no default of a file or variable."""
    return context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def given_flags(context: click.Context) -> dict[str, str]:
    """Return the flags on the command line, each by its parameter's name."""
    options = [each for each in context.command.params if isinstance(each, click.Option)]
    return {str(each.name): max(each.opts, key=len) for each in options if was_given(context, str(each.name))}


def check_one_model(context: click.Context) -> None:
    """Refuse two models on the command line; raises UsageError. Of `run` the first word may be a question instead."""
    given = [context.params[name] for name in ("model", "model_option") if was_given(context, name)]
    if len(given) > 1 and "prompt" not in context.params and not context.params.get("audit"):
        refuse_two_models(*given)


def refuse_two_models(argument: str, option: str, hint: str = "Leave out one of the two.") -> None:
    """Raise UsageError where an argument and -m name two different models."""
    if not is_same_model(argument, option):
        raise UsageError(f"{argument} and -m {option} are two models, and one is needed.", hint=hint)


def give_way(context: click.Context) -> None:
    """Leave what contradicts the command line, and does not stand there itself, at what is built in."""
    given = {name: value for name, value in context.params.items() if was_given(context, name) and value}
    giving = {other for name in given for other in _GIVING_WAY.get(name, ())}
    if any(given[name].startswith(PAIR) for name in ("model", "model_option") if name in given):
        # A pair brings a draft model of its own.
        giving.add("draft")
    # A context of its own, which knows of no file.
    bare = click.Context(context.command)
    for parameter in context.command.params:
        if parameter.name in giving and not was_given(context, parameter.name):
            built_in = parameter.get_default(bare)
            # For none at all click has a value of its own.
            context.params[parameter.name] = built_in if isinstance(built_in, bool | str) else None
