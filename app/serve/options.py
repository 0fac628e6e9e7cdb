"""`localspec serve` and its flags."""

from pathlib import Path
from typing import Any

import click

from app.flags.declaring import SECRET, Command, ModelName, SectionedCommand, add_options, option
from app.flags.number_types import UNLIMITED, FiniteRange, TokenLimit
from app.flags.options import (
    ALLOW_ROUNDING,
    DRAFT_MAX,
    DRAFTER,
    MODEL_OPTIONS,
    NO_ADAPT,
    NO_DRAFT_COPY,
    SHAPING_OPTIONS,
    STRICT,
    THINK,
)

_SAMPLING, _OUTPUT, _DOOR, _LOAD = "Sampling", "Output", "Network and access", "Load"
_LONGEST = 86400
_WAIT = FiniteRange(min=0.01, max=_LONGEST)
"""Not 0: an idle server takes some time too. To refuse all waiting requests, use --queue 0."""
_TEMPERATURE_HELP = (
    "Default temperature of requests.  [default: 0.8; 0 for fill-in-the-middle and, with --fim, for all but chats]"
)
_COUNT_HELP = "Default maximum tokens of an answer; -1: no limit.  [default: -1; with --fim 128 for all but chats]"
_THINK_HELP = "Default amount of thinking before an answer in chats, for models that think. auto: the model's default."
_FIM_HELP = "Serve editors: port 8012, as llama.vim and llama.vscode expect, and short completions at temperature 0."
_HOST_HELP = "Address to listen on. An address other than loopback requires --api-key."
_PORT_HELP = "Port to listen on; 0: any free port.  [default: 8080; with --fim 8012]"
_KEY_HELP = "API key that clients must send as a bearer token."
_ALLOW_HOST_HELP = "Additional host name that clients may use. Repeatable."
_ORIGIN_HELP = "Origin of web pages that may send requests, such as http://localhost:3000; *: all origins. Repeatable."
_MODELS_HELP = (
    "Further models that requests may name, separated by commas; all: every model on this machine. Repeatable."
)
_IDLE_HELP = "Minutes without a request after which the model is unloaded; the next request loads it again."
_SERVICE_HELP = "Print a systemd user unit (macOS: a launchd agent) that serves with the other flags, and exit."
_EMBEDDING_HELP = "Model for /v1/embeddings beside the one that writes text, such as nomic-embed-text."
_SLOTS_HELP = (
    "Folder in which clients may save what a slot has read, and restore it from, by POST /slots/ID?action=save."
)
_PARALLEL_HELP = "Number of answers computed at once. Each needs memory for a whole context."
_QUEUE_HELP = "Maximum number of waiting requests; further requests are refused with status 503."
_TIMEOUT_HELP = "Maximum seconds that a request waits; then it is refused with status 503."
_GRACE_HELP = "Seconds that running answers get to finish on shutdown."

_DOOR_OPTIONS = (
    option(_DOOR, "--host", default="127.0.0.1", envvar="LOCALSPEC_HOST", help=_HOST_HELP),
    option(_DOOR, "--port", type=click.IntRange(0, 65535), help=_PORT_HELP),
    option(_DOOR, "--fim", is_flag=True, help=_FIM_HELP),
    option(_DOOR, "--api-key", envvar="LOCALSPEC_API_KEY", metavar="KEY", help=_KEY_HELP, **SECRET),
    option(_DOOR, "--allow-host", multiple=True, metavar="NAME", help=_ALLOW_HOST_HELP),
    option(_DOOR, "--allow-origin", multiple=True, metavar="URL", help=_ORIGIN_HELP),
    option(_DOOR, "--alias", metavar="NAME", help="Name of the model in replies.  [default: the name of its file]"),
)
_LOAD_OPTIONS = (
    option(_LOAD, "--models", multiple=True, metavar="NAMES", help=_MODELS_HELP),
    option(_LOAD, "--idle-unload", type=FiniteRange(min=0.001, max=_LONGEST), metavar="MINUTES", help=_IDLE_HELP),
    option(_LOAD, "-np", "--parallel", default=2, type=click.IntRange(1, 64), help=_PARALLEL_HELP),
    option(_LOAD, "--embedding-model", type=ModelName(), metavar="MODEL", help=_EMBEDDING_HELP),
    option(_LOAD, "--slot-save-path", type=click.Path(path_type=Path), metavar="FOLDER", help=_SLOTS_HELP),
    option(_LOAD, "--queue", default=16, type=click.IntRange(0, 4096), help=_QUEUE_HELP),
    option(_LOAD, "--timeout", default=60.0, type=_WAIT, help=_TIMEOUT_HELP),
    option(_LOAD, "--grace", default=15.0, type=FiniteRange(min=0, max=_LONGEST), help=_GRACE_HELP),
    option(_LOAD, "--max-body", default=8.0, type=FiniteRange(0.001, 1024), help="Maximum size of a request, in MiB."),
)
_DRAFT_OPTIONS = (
    DRAFTER,
    NO_DRAFT_COPY,
    DRAFT_MAX,
    NO_ADAPT,
    ALLOW_ROUNDING,
    STRICT,
)
_SAMPLING_OPTIONS = (
    option(_SAMPLING, "-n", "--n-predict", "predict", type=TokenLimit(UNLIMITED), help=_COUNT_HELP),
    option(_SAMPLING, "--temp", type=float, help=_TEMPERATURE_HELP),
    *SHAPING_OPTIONS,
    option(_SAMPLING, "--think", default="auto", type=THINK, help=_THINK_HELP),
)
_QUIET = option(_OUTPUT, "-q", "--quiet", is_flag=True, help="Print no progress, no notes and no address.")
_SERVICE = option(_OUTPUT, "--print-service", is_flag=True, help=_SERVICE_HELP)
_OPTIONS = (*_DOOR_OPTIONS, *MODEL_OPTIONS, *_DRAFT_OPTIONS, *_LOAD_OPTIONS, *_SAMPLING_OPTIONS, _QUIET, _SERVICE)
_EPILOG = (
    "Exit codes: 0 stopped by SIGTERM or Ctrl-C; 1 failure; 2 usage; 3 model not found or corrupt; "
    "4 incompatible pair; 5 does not fit in memory; 130 a second Ctrl-C."
)


_HELP = """Serve MODEL over HTTP, to OpenAI clients and editors.

\b
  localspec serve big.gguf --draft tiny.gguf     serve http://127.0.0.1:8080/v1 for OpenAI clients
  localspec serve coder.gguf --fim               port 8012 for llama.vim and llama.vscode
  localspec serve big.gguf --models all          change to the model that a request names
  localspec serve --host 0.0.0.0 --api-key KEY   also serve other machines

Paths: /v1/chat/completions, /v1/responses, /v1/messages (Anthropic's), /v1/completions (also with suffix), /infill,
/completion, /v1/embeddings, /v1/models, /tokenize, /detokenize, /slots, /props, /health, /metrics. A client that
disconnects cancels its answer. Prompts and answers are not logged, and not kept but for the responses of
/v1/responses, in memory, and slots that a client saves.

SIGTERM or Ctrl-C: the server accepts no new requests, finishes the running ones and exits. Needs localspec[serve].
"""


def _serve_options(command: Command) -> Command:
    """Add the flags of `serve` to a command."""
    return add_options(command, _OPTIONS)


@click.command(cls=SectionedCommand, help=_HELP, epilog=_EPILOG)
@click.argument("model", required=False, type=ModelName("starter"), envvar="LOCALSPEC_MODEL")
@_serve_options
@click.pass_context
def serve(context: click.Context, /, model: str | None, **flags: Any) -> None:
    """Serve a model over HTTP."""
    from app.serve.command import print_service, read_serve, run_serve
    from app.shell.log import open_log

    open_log()
    plan = read_serve(model, flags)
    if flags["print_service"]:
        print_service(context)
        context.exit(0)
    context.exit(run_serve(plan))
