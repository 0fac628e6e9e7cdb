"""Flags of `tune`."""

from app.flags.declaring import Command, ModelName, add_options, option
from app.flags.number_types import FiniteRange
from app.flags.options import GPU_HELP, GPU_LAYERS, THREADS

_WHAT, _CHOICE, _OUTPUT = "What to measure", "What to choose", "Output"
_SECONDS_HELP = "Seconds to spend; measurements that do not fit are skipped, and listed."
_ROUNDING_HELP = "Choose the fastest setting even if its exact drafts are shorter; used by `run --allow-rounding`."
_KEEP_HELP = "Keep a re-quantised copy of the draft model in the cache folder, if it is faster."
_CARD_HELP = "Name of the pair card, or a .toml file for it.  [default: from the model's name]"
_THREADS_HELP = "Threads, for later runs with the same -t; 0: tries one to all physical cores, for runs without -t."

_OPTIONS = (
    option(_WHAT, "-m", "--model", "model_option", type=ModelName("starter"), help="The model; same as the argument."),
    option(
        _WHAT,
        "-md",
        "--draft",
        envvar="LOCALSPEC_DRAFT",
        type=ModelName(),
        metavar="FILE",
        help="The draft model: a small GGUF, best of the same family.",
    ),
    option(_WHAT, "-t", "--threads", default=0, type=THREADS, help=_THREADS_HELP),
    option(_WHAT, "-ngl", "--gpu-layers", "--n-gpu-layers", default=-1, type=GPU_LAYERS, help=GPU_HELP),
    option(_WHAT, "--seconds", default=55.0, type=FiniteRange(min=0.1, max=3600), help=_SECONDS_HELP),
    option(_CHOICE, "--allow-rounding", is_flag=True, help=_ROUNDING_HELP),
    option(_CHOICE, "--keep", "--requantise-draft", "keep", is_flag=True, help=_KEEP_HELP),
    option(_OUTPUT, "--card", metavar="NAME", help=_CARD_HELP),
    option(_OUTPUT, "--no-card", is_flag=True, help="With a draft model: do not write a pair card."),
    option(_OUTPUT, "--json", "as_json", is_flag=True, help="Print one JSON object with every figure."),
    option(_OUTPUT, "-q", "--quiet", is_flag=True, help="No progress, no notes."),
)


def tune_options(command: Command) -> Command:
    """Add the flags of `tune` to a command."""
    return add_options(command, _OPTIONS)
