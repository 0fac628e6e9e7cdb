"""The flags of `run`, by section, declared once: parsing, help and shell completion all read them here.

Other commands that load a model take whole groups from here.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import CompletionItem

from app.context_size import CONTEXT_HELP, ContextSize
from app.old_flags import translate
from app.themes import THEMES
from drafters.registry import HELP as DRAFTERS
from models.cache_types import CACHE_TYPES

Command = Callable[..., None]


SECRET: Mapping[str, Any] = {"hide_input": True, "show_default": False}
"""Settings of an option whose value is shown nowhere, neither in the help nor by `config show`."""


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
        """Return fitting names, those of the models on this machine too, and ask the shell for files."""
        names = dict.fromkeys((*self._names, *_known_names()))
        fitting = [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return [*fitting, CompletionItem(incomplete, type="file")]


def _known_names() -> list[str]:
    from app.catalog.known_names import known_names

    # What a completion complains of would stand in the middle of a command line.
    with suppress(Exception):
        return known_names()
    return []


def option(section: str, *names: str, **settings: Any) -> Callable[[Command], Command]:
    """Declare an option in a section of the help."""
    return click.option(*names, cls=SectionedOption, section=section, **{"show_default": True, **settings})


_COUNT = click.IntRange(min=1)
_SIZE = click.IntRange(min=0, max=1 << 24)
_CACHE = click.Choice(CACHE_TYPES)
_FLASH = click.Choice(["auto", "on", "off"])
_ACCEPT = click.Choice(["coupled", "residual", "block", "typical"])
_GPU_HELP = "Layers on the GPU, where the build has one; -1: all, 0: none."
_ROUNDING_HELP = "Draft longer than this machine is bit-exact for; near-ties may fall otherwise."
_STRICT_HELP = "Only passes that were checked, now, to be exact to the last bit; tells their price, or why not."
_ACCEPT_HELP = "How guesses are judged; see below. coupled: same seed, same text."
_EDIT_HELP = "Edit FILE, FILE:LINE or FILE:LINE:COL on a screen that proposes what might come next; F1 shows its keys."
_COUNT_HELP = "Most tokens to answer.  [default: until it ends]"
_MAX_HELP = "Most tokens to guess in a round.  [default: as many as pay; 3 with --no-adapt]"
_PREDICTION_HELP = "The answer you expect, such as the file to be rewritten: guesses are taken from it."
_CONTINUE_HELP = "Go on with the last conversation; it brings its model and system prompt."
_RESUME_HELP = "Go on with this conversation; the first digits of its id are enough. See localspec history."
_HISTORY_HELP = "Keep nothing of what is said, nor of what is typed; see localspec history. Implies --no-memory."
_MEMORY_HELP = "Neither keep what is said here nor copy from what was; see localspec drafter."
_THEME_HELP = "Colours of the screen; auto: dark, or light where the terminal says so."
_KEY_HELP = "Another key for something, as chat.panel=f12; F1 shows all. In a settings file: a table [keys]."
_INPUT, _MODEL, _DRAFT, _SAMPLING, _OUTPUT = "Input", "Model and machine", "Speculation", "Sampling", "Output"
_SCREEN = "Screen"

_INPUT_OPTIONS = (
    option(_INPUT, "-p", "--prompt", "prompt_option", help="The question; without one, on a terminal, a chat."),
    option(_INPUT, "-f", "--file", type=click.Path(), help="Read (more of) the question from a file."),
    option(_INPUT, "--edit", type=click.Path(), metavar="FILE", help=_EDIT_HELP),
    option(_INPUT, "-C", "--continue", "go_on", is_flag=True, help=_CONTINUE_HELP),
    option(_INPUT, "--resume", metavar="ID", help=_RESUME_HELP),
    option(_INPUT, "-sys", "--system-prompt", help="What the model should be told first."),
    option(_INPUT, "--raw", is_flag=True, help="Send the bare text, without the model's chat template."),
    option(_INPUT, "--stop", multiple=True, metavar="TEXT", help="End the answer before this text. Repeatable."),
    option(_INPUT, "-n", "--n-predict", "predict", type=_COUNT, help=_COUNT_HELP),
)
MODEL_OPTIONS = (
    option(_MODEL, "-m", "--model", "model_option", type=ModelName("starter"), help="The model, as the argument."),
    option(_MODEL, "-c", "--ctx-size", default=0, type=ContextSize(), metavar="N|auto", help=CONTEXT_HELP),
    option(_MODEL, "-t", "--threads", default=0, type=_SIZE, help="Threads; 0: one a physical core."),
    option(_MODEL, "-tb", "--threads-batch", default=0, type=_SIZE, help="Threads to read and verify; 0: as -t."),
    option(_MODEL, "-ngl", "--gpu-layers", "--n-gpu-layers", default=-1, type=int, help=_GPU_HELP),
    option(
        _MODEL, "-fa", "--flash-attn", default="auto", type=_FLASH, help="Flash attention; auto: on where it works."
    ),
    option(_MODEL, "-ctk", "--cache-type-k", default="auto", type=_CACHE, help="Type of cached keys; auto: exact."),
    option(_MODEL, "-ctv", "--cache-type-v", default="auto", type=_CACHE, help="Type of cached values."),
)
DRAFTER = option(
    _DRAFT,
    "-md",
    "--draft",
    default="auto",
    envvar="LOCALSPEC_DRAFT",
    type=ModelName("auto", "lookup", "suffix", "off"),
    metavar="DRAFTER",
    help=f"Who guesses: {DRAFTERS}.",
)
DRAFT_MAX = option(_DRAFT, "--draft-max", type=click.IntRange(0, 64), help=_MAX_HELP)
NO_ADAPT = option(_DRAFT, "--no-adapt", is_flag=True, help="Guess --draft-max tokens in every round, paying or not.")
ALLOW_ROUNDING = option(_DRAFT, "--allow-rounding", is_flag=True, help=_ROUNDING_HELP)
STRICT = option(_DRAFT, "--strict", is_flag=True, help=_STRICT_HELP)
_DRAFT_OPTIONS = (
    DRAFTER,
    DRAFT_MAX,
    NO_ADAPT,
    option(_DRAFT, "--accept", default="coupled", type=_ACCEPT, help=_ACCEPT_HELP),
    ALLOW_ROUNDING,
    STRICT,
    option(_DRAFT, "--predict", "prediction", type=click.Path(), metavar="FILE", help=_PREDICTION_HELP),
    option(_DRAFT, "--no-memory", is_flag=True, envvar="LOCALSPEC_NO_MEMORY", help=_MEMORY_HELP),
    option(_DRAFT, "--explain", is_flag=True, help="Tell in the end what guessing cost, and walk through one round."),
)
_TEMPERATURE = option(_SAMPLING, "--temp", default=0.8, type=float, help="Temperature; 0: always the likeliest token.")
SHAPING_OPTIONS = (
    option(_SAMPLING, "--top-k", default=40, type=int, help="Keep the likeliest k tokens; 0: all."),
    option(_SAMPLING, "--top-p", default=0.95, type=float, help="Keep this much probability; 1: all."),
    option(_SAMPLING, "--min-p", default=0.05, type=float, help="Drop what is below this share of the likeliest."),
    option(_SAMPLING, "--repeat-penalty", default=1.0, type=float, help="Weaken what was said; 1: off."),
    option(_SAMPLING, "--repeat-last-n", default=64, type=int, help="How far back penalties look; -1: all."),
    option(_SAMPLING, "--presence-penalty", default=0.0, type=float, help="Subtract once from what was said."),
    option(_SAMPLING, "--frequency-penalty", default=0.0, type=float, help="Subtract each time it was said."),
)
_SEED = option(_SAMPLING, "-s", "--seed", default=-1, type=int, help="Same seed, same text; -1: a new one.")
_OUTPUT_OPTIONS = (
    option(_OUTPUT, "--json", "as_json", is_flag=True, help="JSON lines: start, round, end; error."),
    option(_OUTPUT, "--no-history", is_flag=True, envvar="LOCALSPEC_NO_HISTORY", help=_HISTORY_HELP),
    option(_OUTPUT, "-q", "--quiet", is_flag=True, help="No progress, no statistics."),
    option(_OUTPUT, "--plain", is_flag=True, help="Chat line by line, for screen readers, dumb terminals and SSH."),
)
_SCREEN_OPTIONS = (
    option(_SCREEN, "--theme", default="auto", type=click.Choice(["auto", *THEMES]), help=_THEME_HELP),
    option(_SCREEN, "--vim", is_flag=True, help="Vim's keys in the prompt."),
    option(_SCREEN, "--key", multiple=True, metavar="NAME=KEYS", help=_KEY_HELP),
)


def run_options(command: Command) -> Command:
    """Add the flags of `run` to a command."""
    shared = (*MODEL_OPTIONS, *_DRAFT_OPTIONS, _TEMPERATURE, *SHAPING_OPTIONS, _SEED)
    return add_options(command, (*_INPUT_OPTIONS, *shared, *_OUTPUT_OPTIONS, *_SCREEN_OPTIONS))


def add_options(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    """Add options to a command, in the order in which its help shows them."""
    for declare in reversed(options):
        command = declare(command)
    return command
