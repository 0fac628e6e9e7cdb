"""The command `lsp` and its flags."""

from typing import Any

import click

from app.options import (
    ALLOW_ROUNDING,
    DRAFTER,
    MODEL_OPTIONS,
    Command,
    ModelName,
    SectionedCommand,
    add_options,
    option,
)

_DRAFT, _COMPLETION, _PROTOCOL = "Speculation", "Completion", "Protocol"
_HELP = """Complete at the cursor of an editor: a language server on standard input and output.

\b
  localspec lsp qwen-coder.gguf                    any model that can fill in the middle
  localspec lsp big.gguf --draft tiny.gguf         tiny guessing for big

An editor starts it. It speaks LSP 3.18 with inline completions, and offers plain ones to editors that know no others.

Settings may also come from the editor, at the start (initializationOptions) and while it runs: model, draft, context,
debounce_ms, max_lines, max_tokens, time_limit_ms, prefix_lines, suffix_lines, prefetch, completion ("auto", "on" or
"off") and trigger, a list of characters that ask for a plain completion. They win over the flags.

Nothing that is written is kept or logged, and nothing leaves this machine. Exit code 0: the editor took its leave;
1: it was gone without. Needs localspec[lsp].
"""
_COUNT = click.IntRange(min=0)
_DEBOUNCE_HELP = "Milliseconds without a key before a completion that nobody asked for is begun."
_LINES_HELP = "Most lines of a completion, empty ones not counted; 0: any number."
_TIME_HELP = "Milliseconds to speak. The first line is completed in any case; a later one that is cut is left out."
_PROCESS_HELP = "The editor's process: when it is gone, so is this one."

_OPTIONS = (
    *MODEL_OPTIONS,
    DRAFTER,
    option(
        _DRAFT,
        "--draft-max",
        type=click.IntRange(0, 64),
        help="Most tokens to guess in a round.  [default: as many as pay]",
    ),
    ALLOW_ROUNDING,
    option(_COMPLETION, "--debounce", default=150, type=_COUNT, metavar="MS", help=_DEBOUNCE_HELP),
    option(_COMPLETION, "--max-lines", default=0, type=_COUNT, help=_LINES_HELP),
    option(_COMPLETION, "-n", "--n-predict", "predict", default=128, type=click.IntRange(min=1), help="Most tokens."),
    option(_COMPLETION, "--time-limit", default=1000, type=click.IntRange(min=1), metavar="MS", help=_TIME_HELP),
    option(_PROTOCOL, "--stdio", is_flag=True, default=True, help="Speak on standard input and output: the only way."),
    option(_PROTOCOL, "--clientProcessId", "client", type=int, metavar="ID", help=_PROCESS_HELP),
)


def _with_options(command: Command) -> Command:
    return add_options(command, _OPTIONS)


@click.command(cls=SectionedCommand, help=_HELP)
@click.argument("model", required=False, type=ModelName("starter"), envvar="LOCALSPEC_MODEL")
@_with_options
@click.pass_context
def lsp(context: click.Context, /, model: str | None, **flags: Any) -> None:
    """Complete at the cursor of an editor."""
    from app.log import open_log
    from app.lsp.command import start_lsp

    open_log()
    context.exit(start_lsp(model, flags))
