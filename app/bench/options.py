"""Flags of `bench`: those of `run` that load a model and set its sampling, and its own."""

from collections.abc import Callable

import click
from click.core import ParameterSource

from app.flags.declaring import Command, ModelName, add_options, option
from app.flags.options import MODEL_OPTIONS, NO_DRAFT_COPY, SHAPING_OPTIONS
from drafters.registry import FREE_DRAFTERS, names_without_model

_WHAT, _DRAFT, _SAMPLING, _OUTPUT = "What to measure", "Speculation", "Sampling", "Output"
SPEC_BENCH, SPEED_BENCH = "spec-bench", "speed-bench"
SUITES = (SPEC_BENCH, SPEED_BENCH)
"""Published benchmarks whose files are read."""
PREDICT_NAMES, PREDICT_HELP = ("-n", "--n-predict", "predict"), "Maximum tokens per answer."
_COUNT = click.IntRange(min=1)
_SUITE_HELP = (
    f"Prompts of a published benchmark, in the form in which it is published: {' or '.join(SUITES)}, and its file."
)
_PROMPTS_HELP = "Prompts, as JSON lines.  [default: built-in prompts]"
_CLASS_HELP = "Prompt classes, separated by commas.  [default: all]"
_ARMS_HELP = (
    f"Arms to compare with plain decoding, separated by commas: auto, {', '.join(FREE_DRAFTERS)}, model, online (the "
    "draft model as under run --online), mtp (the model's own head), eagle3 and medusa (such a head in a file that is "
    "found with no flag), distil, prune and trim (a draft model that forge made for this model so), text (the starter, "
    "drafting text); each but auto also with a draft length, as in lookup:7; or all (every method that this model can "
    "use, ranked in a league table).  [default: auto; with a draft model auto,lookup,model]"
)
_DRAFT_MAX_HELP = "Draft length of arms that do not name one."
_ROUNDING_HELP = "Allow drafts longer than this machine verifies bit-exactly; a text that forks is then not a failure."
_TEMPERATURE_HELP = "Temperatures, separated by commas; drafters start empty for each."
_PLOT_HELP = "Plot the speed-ups and the cost of a pass, as .svg or .png. Needs localspec[plot]."


class _Numbers(click.ParamType[str]):
    """Numbers separated by commas, kept as text."""

    name = "numbers"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text, which has numbers alone; raises click.BadParameter."""
        for number in value.split(","):
            try:
                float(number.strip() or 0)
            except ValueError:
                self.fail(f"'{value}' is not a list of numbers, as in 0,0.7.", param, ctx)
        return value


NUMBERS = _Numbers()
_WHAT_OPTIONS = (
    option(_WHAT, "--suite", nargs=2, type=(click.Choice(SUITES), click.Path()), metavar="NAME FILE", help=_SUITE_HELP),
    option(_WHAT, "--vs", multiple=True, metavar="ARMS", help=_ARMS_HELP),
    option(_WHAT, "--limit", default=12, type=_COUNT, help="Maximum prompts per class."),
    option(_WHAT, *PREDICT_NAMES, default=160, type=_COUNT, help=PREDICT_HELP),
)


def _given_or_a_file(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Ignore "off" or "lookup" where it is a default of a settings file: here it names no draft model."""
    is_default = context.get_parameter_source(str(parameter.name)) is not ParameterSource.COMMANDLINE
    return None if is_default and value in names_without_model() else value


DRAFT_FILE = option(
    _DRAFT,
    "-md",
    "--draft",
    envvar="LOCALSPEC_DRAFT",
    callback=_given_or_a_file,
    type=ModelName(),
    metavar="FILE",
    help="The draft model: a small GGUF, best of the same family.",
)
_DRAFT_OPTIONS = (
    DRAFT_FILE,
    NO_DRAFT_COPY,
    option(_DRAFT, "--draft-max", default=3, type=click.IntRange(1, 64), help=_DRAFT_MAX_HELP),
    option(_DRAFT, "--allow-rounding", is_flag=True, help=_ROUNDING_HELP),
)
_TEMPERATURES = option(
    _SAMPLING, "--temp", multiple=True, default=["0"], type=NUMBERS, metavar="NUMBERS", help=_TEMPERATURE_HELP
)
SEED = option(_SAMPLING, "-s", "--seed", default=1, type=click.IntRange(min=0), help="Same seed, same texts.")
_OUTPUT_OPTIONS = (
    option(
        _OUTPUT, "--json", "as_json", is_flag=True, help="Print one JSON object with every figure and every answer."
    ),
    option(_OUTPUT, "--plot", type=click.Path(), metavar="FILE", help=_PLOT_HELP),
    option(_OUTPUT, "-q", "--quiet", is_flag=True, help="No progress, no notes."),
)


def bench_options(command: Command) -> Command:
    """Add the flags of `bench` to a command."""
    sampling = (_TEMPERATURES, *SHAPING_OPTIONS, SEED)
    what = (*prompt_options(_WHAT), *_WHAT_OPTIONS)
    return add_options(command, (*what, *MODEL_OPTIONS, *_DRAFT_OPTIONS, *sampling, *_OUTPUT_OPTIONS))


def prompt_options(section: str) -> tuple[Callable[[Command], Command], ...]:
    """Return the flags that choose prompts, in a section of the help."""
    return (
        option(section, "--prompts", type=click.Path(), metavar="FILE", help=_PROMPTS_HELP),
        option(section, "--class", "classes", multiple=True, metavar="NAMES", help=_CLASS_HELP),
    )
