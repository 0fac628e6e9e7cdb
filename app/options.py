"""The flags of `run`, by section, declared once: parsing, help and shell completion all read them here."""

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from app.old_flags import translate
from drafters.registry import HELP as DRAFTERS

Command = Callable[..., None]


class SectionedOption(click.Option):
    """An option that knows which section of the help it belongs to."""

    def __init__(self, *names: Any, section: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help has sections, and which still understands yesterday's flags."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Translate old spellings, say so on stderr, then parse."""
        arguments, notes = translate(arguments)
        for note in notes:
            click.echo(f"localspec: note: {note}", err=True)
        return super().parse_args(context, arguments)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their sections, in order of declaration."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "section", _OUTPUT), []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


class ModelName(click.ParamType[str]):
    """A GGUF file, or a name; completes files, and the names that are always there."""

    name = "model"

    def __init__(self, *names: str) -> None:
        self._names = names

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return fitting names, and ask the shell for files."""
        names = [CompletionItem(name) for name in self._names if name.startswith(incomplete)]
        return [*names, CompletionItem(incomplete, type="file")]


def _option(section: str, *names: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(*names, cls=SectionedOption, section=section, show_default=True, **settings)


_COUNT = click.IntRange(min=1)
_SIZE = click.IntRange(min=0, max=1 << 24)
_CACHE = click.Choice(["auto", "f32", "f16", "q8_0"])
_FLASH = click.Choice(["auto", "on", "off"])
_GPU_HELP = "Layers on the GPU, where the build has one; -1: all, 0: none."
_ROUNDING_HELP = "Draft longer than this machine is bit-exact for; near-ties may fall otherwise."
_INPUT, _MODEL, _DRAFT, _SAMPLING, _OUTPUT = "Input", "Model and machine", "Speculation", "Sampling", "Output"

_RUN_OPTIONS = (
    _option(_INPUT, "-p", "--prompt", "prompt_option", help="The question; without one, on a terminal, a chat."),
    _option(_INPUT, "-f", "--file", type=click.Path(), help="Read (more of) the question from a file."),
    _option(_INPUT, "-sys", "--system-prompt", help="What the model should be told first."),
    _option(_INPUT, "--raw", is_flag=True, help="Send the bare text, without the model's chat template."),
    _option(_INPUT, "--stop", multiple=True, metavar="TEXT", help="End the answer before this text. Repeatable."),
    _option(_INPUT, "-n", "--predict", type=_COUNT, help="Most tokens to answer.  [default: until it ends]"),
    _option(_MODEL, "-m", "--model", "model_option", type=ModelName("starter"), help="The model, as the argument."),
    _option(_MODEL, "-c", "--ctx-size", default=0, type=_SIZE, help="Tokens of context; 0: the model's, up to 8192."),
    _option(_MODEL, "-t", "--threads", default=0, type=_SIZE, help="Threads; 0: one a physical core."),
    _option(_MODEL, "-tb", "--threads-batch", default=0, type=_SIZE, help="Threads to read and verify; 0: as -t."),
    _option(_MODEL, "-ngl", "--gpu-layers", "--n-gpu-layers", default=-1, type=int, help=_GPU_HELP),
    _option(
        _MODEL, "-fa", "--flash-attn", default="auto", type=_FLASH, help="Flash attention; auto: on where it works."
    ),
    _option(_MODEL, "-ctk", "--cache-type-k", default="auto", type=_CACHE, help="Type of cached keys; auto: exact."),
    _option(_MODEL, "-ctv", "--cache-type-v", default="auto", type=_CACHE, help="Type of cached values."),
    _option(
        _DRAFT,
        "-md",
        "--draft",
        default="auto",
        envvar="LOCALSPEC_DRAFT",
        type=ModelName("auto", "lookup", "off"),
        metavar="DRAFTER",
        help=f"Who guesses: {DRAFTERS}.",
    ),
    _option(_DRAFT, "--draft-max", default=3, type=click.IntRange(0, 64), help="Most tokens to guess in a round."),
    _option(_DRAFT, "--allow-rounding", is_flag=True, help=_ROUNDING_HELP),
    _option(_SAMPLING, "--temp", default=0.8, type=float, help="Temperature; 0: always the likeliest token."),
    _option(_SAMPLING, "--top-k", default=40, type=int, help="Keep the likeliest k tokens; 0: all."),
    _option(_SAMPLING, "--top-p", default=0.95, type=float, help="Keep this much probability; 1: all."),
    _option(_SAMPLING, "--min-p", default=0.05, type=float, help="Drop what is below this share of the likeliest."),
    _option(_SAMPLING, "--repeat-penalty", default=1.0, type=float, help="Weaken what was said; 1: off."),
    _option(_SAMPLING, "--repeat-last-n", default=64, type=int, help="How far back penalties look; -1: all."),
    _option(_SAMPLING, "--presence-penalty", default=0.0, type=float, help="Subtract once from what was said."),
    _option(_SAMPLING, "--frequency-penalty", default=0.0, type=float, help="Subtract each time it was said."),
    _option(_SAMPLING, "-s", "--seed", default=-1, type=int, help="Same seed, same text; -1: a new one."),
    _option(_OUTPUT, "--json", "as_json", is_flag=True, help="JSON lines: start, round, end; error."),
    _option(_OUTPUT, "-q", "--quiet", is_flag=True, help="No progress, no statistics."),
    _option(_OUTPUT, "--plain", is_flag=True, help="Chat line by line, for screen readers, dumb terminals and SSH."),
)


def run_options(command: Command) -> Command:
    """Add the flags of `run` to a command."""
    for option in reversed(_RUN_OPTIONS):
        command = option(command)
    return command
