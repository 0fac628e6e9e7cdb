"""`localspec serve` and its flags."""

from typing import Any

import click

from app.options import (
    ALLOW_ROUNDING,
    DRAFT_MAX,
    DRAFTER,
    MODEL_OPTIONS,
    NO_ADAPT,
    SECRET,
    SHAPING_OPTIONS,
    STRICT,
    Command,
    ModelName,
    SectionedCommand,
    add_options,
    option,
)

_SAMPLING, _OUTPUT, _DOOR, _LOAD = "Sampling", "Output", "Who may ask", "How much at once"
_COUNT = click.IntRange(min=1)
_LONGEST = 86400
_WAIT = click.FloatRange(min=0.01, max=_LONGEST)
"""With no time at all an idle server would be late too; who wants nobody to wait says --queue 0."""
_TEMPERATURE_HELP = "Temperature where a request has none.  [default: 0.8; 0 for holes, and with --fim for all texts]"
_COUNT_HELP = "Most tokens of an answer where a request says nothing.  [default: any number; with --fim 128]"
_FIM_HELP = "For editors: port 8012, where llama.vim and llama.vscode look, and short, likeliest completions."
_HOST_HELP = "Where to listen. Another than this machine's own demands --api-key."
_PORT_HELP = "Port; 0: any.  [default: 8080; with --fim 8012]"
_KEY_HELP = "What clients must send, as a bearer token."
_ALLOW_HOST_HELP = "Another name that clients may call the server by. Repeatable."
_ORIGIN_HELP = "A web page whose scripts may ask, such as http://localhost:3000; * for all. Repeatable."
_PARALLEL_HELP = "Conversations that are held, and answered, at once; each takes memory for a context of its own."
_QUEUE_HELP = "Most requests that wait for others to end; the next is refused with status 503."
_TIMEOUT_HELP = "Longest time, in seconds, that a request waits."
_GRACE_HELP = "Seconds that answers have to end when the server is told to stop."

_DOOR_OPTIONS = (
    option(_DOOR, "--host", default="127.0.0.1", envvar="LOCALSPEC_HOST", help=_HOST_HELP),
    option(_DOOR, "--port", type=click.IntRange(0, 65535), help=_PORT_HELP),
    option(_DOOR, "--fim", is_flag=True, help=_FIM_HELP),
    option(_DOOR, "--api-key", envvar="LOCALSPEC_API_KEY", metavar="KEY", help=_KEY_HELP, **SECRET),
    option(_DOOR, "--allow-host", multiple=True, metavar="NAME", help=_ALLOW_HOST_HELP),
    option(_DOOR, "--allow-origin", multiple=True, metavar="URL", help=_ORIGIN_HELP),
    option(_DOOR, "--alias", metavar="NAME", help="What replies call the model.  [default: its file's name]"),
)
_LOAD_OPTIONS = (
    option(_LOAD, "-np", "--parallel", default=2, type=click.IntRange(1, 64), help=_PARALLEL_HELP),
    option(_LOAD, "--queue", default=16, type=click.IntRange(0, 4096), help=_QUEUE_HELP),
    option(_LOAD, "--timeout", default=60.0, type=_WAIT, help=_TIMEOUT_HELP),
    option(_LOAD, "--grace", default=15.0, type=click.FloatRange(min=0, max=_LONGEST), help=_GRACE_HELP),
    option(_LOAD, "--max-body", default=8.0, type=click.FloatRange(0.001, 1024), help="Most MiB of a request."),
)
_DRAFT_OPTIONS = (
    DRAFTER,
    DRAFT_MAX,
    NO_ADAPT,
    ALLOW_ROUNDING,
    STRICT,
)
_SAMPLING_OPTIONS = (
    option(_SAMPLING, "-n", "--n-predict", "predict", type=_COUNT, help=_COUNT_HELP),
    option(_SAMPLING, "--temp", type=float, help=_TEMPERATURE_HELP),
    *SHAPING_OPTIONS,
)
_QUIET = option(_OUTPUT, "-q", "--quiet", is_flag=True, help="No progress, no notes, no address.")
_OPTIONS = (*_DOOR_OPTIONS, *MODEL_OPTIONS, *_DRAFT_OPTIONS, *_LOAD_OPTIONS, *_SAMPLING_OPTIONS, _QUIET)
_EPILOG = (
    "Exit codes: 0 ended by SIGTERM or Ctrl-C; 1 failure; 2 usage; 3 model not found or corrupt; 4 incompatible pair; "
    "5 does not fit in memory; 130 a second Ctrl-C."
)


_HELP = """Serve MODEL over HTTP, to OpenAI's clients and to editors.

\b
  localspec serve big.gguf --draft tiny.gguf     http://127.0.0.1:8080/v1 for OpenAI's clients
  localspec serve coder.gguf --fim               port 8012 for llama.vim and llama.vscode
  localspec serve --host 0.0.0.0 --api-key KEY   for other machines

Paths: /v1/chat/completions, /v1/completions (with suffix, too), /infill, /completion, /v1/models, /tokenize,
/detokenize, /props, /health, /metrics. A client that leaves stops its answer; what is said is neither kept nor logged.

SIGTERM or Ctrl-C: no new requests, and the end when the running ones are answered. Needs localspec[serve].
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
    from app.log import open_log
    from app.serve.command import read_serve, run_serve

    open_log()
    context.exit(run_serve(read_serve(model, flags)))
