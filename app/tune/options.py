"""The flags of `tune`."""

import click

from app.options import Command, ModelName, add_options, option

_THREADS = click.IntRange(0, 1024)
_WHAT, _CHOICE, _OUTPUT = "What to measure", "What to take", "Output"
_SECONDS_HELP = "Seconds to spend; what does not fit is left out, and said."
_ROUNDING_HELP = "Take the quickest setting also if its drafts are exact for fewer tokens; for `run --allow-rounding`."
_KEEP_HELP = "Keep a re-quantised copy of the draft model, in the cache folder, if it is quicker."
_CARD_HELP = "Name of the pair's card, or a .toml file for it.  [default: made of the model's name]"
_THREADS_HELP = "Threads, for later runs with the same -t; 0: tries one to all physical cores, for runs without."
_GPU_HELP = "Layers on the GPU, where the build has one; -1: all, 0: none."

_OPTIONS = (
    option(_WHAT, "-m", "--model", "model_option", type=ModelName("starter"), help="The model, as the argument."),
    option(
        _WHAT,
        "-md",
        "--draft",
        envvar="LOCALSPEC_DRAFT",
        type=ModelName(),
        metavar="FILE",
        help="The draft model: a small GGUF of the same family.",
    ),
    option(_WHAT, "-t", "--threads", default=0, type=_THREADS, help=_THREADS_HELP),
    option(_WHAT, "-ngl", "--gpu-layers", "--n-gpu-layers", default=-1, type=int, help=_GPU_HELP),
    option(_WHAT, "--seconds", default=55.0, type=click.FloatRange(min=0.1, max=3600), help=_SECONDS_HELP),
    option(_CHOICE, "--allow-rounding", is_flag=True, help=_ROUNDING_HELP),
    option(_CHOICE, "--keep", "--requantise-draft", "keep", is_flag=True, help=_KEEP_HELP),
    option(_OUTPUT, "--card", metavar="NAME", help=_CARD_HELP),
    option(_OUTPUT, "--no-card", is_flag=True, help="With a draft model: write no card of the pair."),
    option(_OUTPUT, "--json", "as_json", is_flag=True, help="One JSON object with every figure."),
    option(_OUTPUT, "-q", "--quiet", is_flag=True, help="No progress, no notes."),
)


def tune_options(command: Command) -> Command:
    """Add the flags of `tune` to a command."""
    return add_options(command, _OPTIONS)
