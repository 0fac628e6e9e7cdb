"""The command `lsp` and its flags."""

from typing import Any

import click

from app.flags.declaring import Command, ModelName, SectionedCommand, add_options, option
from app.flags.number_types import FiniteRange
from app.flags.options import ALLOW_ROUNDING, DRAFTER, MODEL_OPTIONS, NO_DRAFT_COPY

_DRAFT, _COMPLETION, _PROTOCOL = "Speculation", "Completion", "Protocol"
_HELP = """Run a language server for completion at the cursor, on standard input and output.

\b
  localspec lsp qwen-coder.gguf                    a model trained to fill in code
  localspec lsp big.gguf --draft tiny.gguf         tiny proposes tokens, big verifies them

The editor starts the server. It speaks LSP 3.18 with inline completions. Editors without these get ordinary ones.

Settings may also come from the editor, at startup (initializationOptions) and while it runs: model, draft, context,
debounce_ms, max_lines, max_tokens, time_limit_ms, prefix_lines, suffix_lines and prefetch; at startup only: completion
("auto", "on" or "off") and trigger, a list of characters that request an ordinary completion. They override the flags.

Your text is neither kept nor logged, and stays on this machine. Exit codes: 0 shut down by the editor; 1 the editor
ended without a shutdown. Needs localspec[lsp].
"""
_COUNT = click.IntRange(min=0)
_SECONDS = FiniteRange(0.001, 86400)
_DEBOUNCE_HELP = "Milliseconds from the last keystroke to an automatic completion."
_LINES_HELP = "Maximum lines of a completion, not counting empty ones; 0: no limit."
_TIME_HELP = "Maximum time to generate. The first line is always completed, a later incomplete line is dropped."
_PROCESS_HELP = "Process id of the editor. The server exits when that process ends."

_OPTIONS = (
    *MODEL_OPTIONS,
    DRAFTER,
    NO_DRAFT_COPY,
    option(
        _DRAFT,
        "--draft-max",
        type=click.IntRange(0, 64),
        help="Maximum draft tokens per round.  [default: chosen by expected gain]",
    ),
    ALLOW_ROUNDING,
    option(_COMPLETION, "--debounce", default=150, type=_COUNT, metavar="MS", help=_DEBOUNCE_HELP),
    option(_COMPLETION, "--max-lines", default=0, type=_COUNT, help=_LINES_HELP),
    option(
        _COMPLETION,
        "-n",
        "--n-predict",
        "predict",
        default=128,
        type=click.IntRange(min=1),
        help="Maximum tokens of a completion.",
    ),
    option(_COMPLETION, "--time-limit", default=1.0, type=_SECONDS, metavar="SECONDS", help=_TIME_HELP),
    option(
        _PROTOCOL, "--stdio", is_flag=True, default=True, help="Use standard input and output (the only transport)."
    ),
    option(_PROTOCOL, "--clientProcessId", "client", type=int, metavar="ID", help=_PROCESS_HELP),
)


def _with_options(command: Command) -> Command:
    return add_options(command, _OPTIONS)


@click.command(cls=SectionedCommand, help=_HELP, short_help="Run a language server for completion at the cursor.")
@click.argument("model", required=False, type=ModelName("starter"), envvar="LOCALSPEC_MODEL")
@_with_options
@click.pass_context
def lsp(context: click.Context, /, model: str | None, **flags: Any) -> None:
    """Run a language server for completion at the cursor."""
    from app.lsp.command import start_lsp
    from app.shell.log import open_log

    open_log()
    context.exit(start_lsp(model, flags))
