"""Options, arguments and commands with sections in their help, completed names, and notes on overridden settings."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from app.flags.old_flags import translate
from app.flags.precedence import check_one_model, give_way
from app.shell.terminal import Terminal

Command = Callable[..., None]


SECRET: Mapping[str, Any] = {"hide_input": True, "show_default": False}
"""Settings of an option whose value is never shown, neither in the help nor by `config show`."""


NOTES = "app.flags.declaring: notes"
"""Key of a context's `meta`: notes that a command prints first, unless it is quiet."""
NOTED = "app.flags.declaring: noted"
"""Key of a context's `meta`: a function to call after NOTES were printed."""
OUTPUT = "Output"
"""Section of options that name no other."""
_EMPTY = "the name is empty; a shell variable may be unset."


class SectionedOption(click.Option):
    """An option with the help section that it belongs to."""

    def __init__(self, *names: Any, section: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.section = section

    @property
    def opposite(self) -> str:
        """The flag that turns off a setting from a file or variable; "" if there is none."""
        if not self.is_bool_flag or self.default is True:
            return ""
        flag = max(self.opts, key=len)
        return "--" + flag.removeprefix("--no-") if flag.startswith("--no-") else "--no-" + flag.removeprefix("--")

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Add the flag and its opposite, unless the opposite is another flag: --card of tune takes a file."""
        super().add_to_parser(parser, ctx)
        if self.opposite and not any(self.opposite in other.opts for other in ctx.command.params):
            parser.add_option(self, [self.opposite], self.name, action="store_const", const=False)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return the name of a refused value's flag, with the variable that the value came from."""
        from_variable = ctx is not None and ctx.get_parameter_source(str(self.name)) is ParameterSource.ENVIRONMENT
        return super().get_error_hint(ctx) + (f" (from {self.envvar})" if from_variable else "")


class SectionedCommand(click.Command):
    """A command with help sections, which also accepts old spellings of flags."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Translate old spellings and parse; then print translations and NOTES, unless quiet or completing."""
        options = [each for each in self.get_params(context) if isinstance(each, click.Option)]
        known = {name for option in options for name in option.opts}
        valued = {name for option in options if not (option.is_flag or option.count) for name in option.opts}
        arguments, notes = translate(arguments, known, valued)
        try:
            rest = super().parse_args(context, arguments)
        finally:
            # During completion, a note would appear in the middle of the typed line.
            terminal = Terminal(quiet=context.params.get("quiet", False) or context.resilient_parsing)
            for note in (*context.meta.get(NOTES, ()), *notes):
                terminal.warn(note)
            if not terminal.quiet and NOTED in context.meta:
                context.meta[NOTED]()
        give_way(context)
        if not context.resilient_parsing:
            check_one_model(context)
        return rest

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their sections, in order of declaration."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "section", OUTPUT), []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


class ModelName(click.ParamType[str]):
    """The type of a model: a GGUF file or a name; completes both."""

    name = "model"

    def __init__(self, *names: str) -> None:
        self._names = names

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return fitting names, including models on this machine, and let the shell complete files."""
        names = dict.fromkeys((*self._names, *_known_names()))
        fitting = [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return [*fitting, CompletionItem(incomplete, type="file")]

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; raises click.BadParameter for "", which would select the default."""
        return value or self.fail(_EMPTY, param, ctx)


class FileName(click.Path):
    """The type of a file's name; the file is checked later. Completes files."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name; raises click.BadParameter for "", which would count as no file."""
        return super().convert(value, param, ctx) if value else self.fail(_EMPTY, param, ctx)


def _known_names() -> list[str]:
    from app.catalog.pairs import known_names

    # During completion, an error would appear in the middle of the typed command.
    with suppress(Exception):
        return known_names()
    return []


def option(section: str, *names: str, **settings: Any) -> Callable[[Command], Command]:
    """Declare an option in a section of the help."""
    return click.option(*names, cls=SectionedOption, section=section, **{"show_default": True, **settings})


def add_options(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    """Add options to a command, in the order in which its help lists them."""
    for declare in reversed(options):
        command = declare(command)
    return command
