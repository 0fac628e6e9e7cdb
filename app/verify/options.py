"""Flags of `verify`: those of `bench` that choose prompts, those that load a model, and its own."""

import click

from app.bench.options import DRAFT_FILE, NUMBERS, PREDICT_HELP, PREDICT_NAMES, SEED, prompt_options
from app.flags.declaring import SECRET, Command, add_options, option
from app.flags.number_types import FiniteRange
from app.flags.options import MODEL_OPTIONS, NO_DRAFT_COPY, SHAPING_OPTIONS
from drafters.registry import FREE_DRAFTERS
from models.sampling.accept import Accept

_WHAT, _DRAFT, _SAMPLING = "What to compare", "Speculation", "Sampling"
_STATISTICS, _AUDIT, _OUTPUT = "Statistics", "Servers", "Output"
_COUNT = click.IntRange(min=1)
_LONGEST = 86400
"""Most seconds of --timeout; far longer times overflow in the socket."""
_RULES = click.Choice([rule.value for rule in Accept])
_ARMS_HELP = (
    f"Drafters to compare, separated by commas: auto, {', '.join(FREE_DRAFTERS)}, model, online, mtp, eagle3, medusa, "
    "text; each but auto also with a draft length, as in lookup:7; or all (every method that this model can use).  "
    "[default: auto,lookup:2,suffix:5; with a draft model also model:3; with --statistics suffix, or model]"
)
_LIMIT_HELP = "Maximum prompts per class.  [default: 1; with --prompts all of the file, except with --statistics]"
_DRAFT_MAX_HELP = "Draft length of arms that do not name one."
_ACCEPT_HELP = "How drafts are accepted; above temperature 0, only coupled allows comparing tokens."
_ROUNDING_HELP = (
    "Allow drafts longer than this machine verifies bit-exactly; near-ties may then fork, and are explained."
)
_STRICT_HELP = "Use only settings and pass widths that a check at startup finds bit-identical."
_TEMPERATURE_HELP = "Temperatures, separated by commas.  [default: 0,0.8; with --statistics 1]"
_STATISTICS_HELP = "Above temperature 0: check the distribution of the generated tokens, not the tokens themselves."
_AUDIT_HELP = "Query an OpenAI-compatible server (URL or URL#MODEL) instead of a model; with two, find where they fork."
_KEY_HELP = "API key to send to the servers."

_WHAT_OPTIONS = (
    option(_WHAT, "--vs", multiple=True, metavar="ARMS", help=_ARMS_HELP),
    option(_WHAT, "--limit", type=_COUNT, help=_LIMIT_HELP),
    option(_WHAT, *PREDICT_NAMES, default=96, type=_COUNT, help=PREDICT_HELP),
)
_DRAFT_OPTIONS = (
    DRAFT_FILE,
    NO_DRAFT_COPY,
    option(_DRAFT, "--draft-max", default=3, type=click.IntRange(1, 64), help=_DRAFT_MAX_HELP),
    option(_DRAFT, "--accept", default=Accept.COUPLED.value, type=_RULES, help=_ACCEPT_HELP),
    option(_DRAFT, "--allow-rounding", is_flag=True, help=_ROUNDING_HELP),
    option(_DRAFT, "--strict", is_flag=True, help=_STRICT_HELP),
)
_TEMPERATURES = option(_SAMPLING, "--temp", multiple=True, type=NUMBERS, metavar="NUMBERS", help=_TEMPERATURE_HELP)
_OTHER_CHECKS = (
    option(_STATISTICS, "--statistics", is_flag=True, help=_STATISTICS_HELP),
    option(_STATISTICS, "--samples", default=20_000, type=_COUNT, metavar="N", help="Total answers to sample."),
    option(_AUDIT, "--audit", multiple=True, metavar="URL", help=_AUDIT_HELP),
    option(_AUDIT, "--timeout", default=120.0, type=FiniteRange(0.1, _LONGEST), help="Seconds to wait for an answer."),
    option(_AUDIT, "--api-key", envvar="LOCALSPEC_API_KEY", metavar="KEY", help=_KEY_HELP, **SECRET),
)
_OUTPUT_OPTIONS = (
    option(_OUTPUT, "--json", "as_json", is_flag=True, help="Print one JSON object instead of the certificate."),
    option(_OUTPUT, "-q", "--quiet", is_flag=True, help="No progress, no notes."),
)


def verify_options(command: Command) -> Command:
    """Add the flags of `verify` to a command."""
    what = (*prompt_options(_WHAT), *_WHAT_OPTIONS)
    sampling = (_TEMPERATURES, *SHAPING_OPTIONS, SEED)
    return add_options(command, (*what, *MODEL_OPTIONS, *_DRAFT_OPTIONS, *sampling, *_OTHER_CHECKS, *_OUTPUT_OPTIONS))
