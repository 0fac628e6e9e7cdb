"""The command `complete` and its flags."""

from typing import Any

import click

from app.flags.declaring import FileName, ModelName, SectionedCommand, add_options, option
from app.flags.number_types import FiniteRange, TokenLimit
from app.flags.options import (
    ALLOW_ROUNDING,
    DRAFT_MAX,
    DRAFTER,
    MODEL_OPTIONS,
    NO_ADAPT,
    NO_DRAFT_COPY,
    SHAPING_OPTIONS,
    STRICT,
)

CURSOR = "<|cursor|>"
_PLACE, _MODEL, _DRAFT = "Position", "Model and machine", "Speculation"
_COMPLETION, _SAMPLING, _OUTPUT = "Completion", "Sampling", "Output"
_ACCEPT = click.Choice(["coupled", "residual", "block", "typical"])
_SECONDS = FiniteRange(min=0, min_open=True)
_CURSOR_HELP = "Marker of the cursor in piped text; must occur exactly once."
_COUNT_HELP = "Maximum tokens; -1: no limit."
_CONTEXT_HELP = "Another file as context, such as an imported one. Repeatable; give the most relevant file last."
_TIME_HELP = (
    "Maximum time to generate. The first line is always completed, a later incomplete line is dropped. "
    "The text may differ from run to run."
)
_RAW_HELP = "Print the model's whole text, without trimming."

_OPTIONS = (
    option(_PLACE, "--prefix-file", type=FileName(), help="Text before the cursor, exactly."),
    option(_PLACE, "--suffix-file", type=FileName(), help="Text after the cursor."),
    option(_PLACE, "--cursor", default=CURSOR, metavar="TEXT", help=_CURSOR_HELP),
    option(_PLACE, "--context", multiple=True, type=FileName(), metavar="FILE", help=_CONTEXT_HELP),
    option(_COMPLETION, "-n", "--n-predict", "predict", default=128, type=TokenLimit(), help=_COUNT_HELP),
    option(_COMPLETION, "--max-lines", type=click.IntRange(min=1), help="Maximum lines, not counting empty ones."),
    option(_COMPLETION, "--time-limit", type=_SECONDS, metavar="SECONDS", help=_TIME_HELP),
    option(
        _MODEL,
        "-m",
        "--model",
        "model_option",
        envvar="LOCALSPEC_MODEL",
        type=ModelName("starter"),
        help="A model trained to fill in code; see column FIM of localspec models ls.",
    ),
    *MODEL_OPTIONS[1:],
    DRAFTER,
    NO_DRAFT_COPY,
    DRAFT_MAX,
    NO_ADAPT,
    option(
        _DRAFT, "--accept", default="coupled", type=_ACCEPT, help="Rule for accepting draft tokens; see localspec run."
    ),
    ALLOW_ROUNDING,
    STRICT,
    option(_SAMPLING, "--temp", default=0.0, type=float, help="Temperature; 0: always the most likely token."),
    *SHAPING_OPTIONS,
    option(
        _SAMPLING,
        "-s",
        "--seed",
        default=-1,
        type=int,
        help="Seed of sampling, which determines the text; -1: a new seed.",
    ),
    option(_OUTPUT, "--raw-output", is_flag=True, help=_RAW_HELP),
    option(
        _OUTPUT,
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object: text, finish, usage, timings, speculation.",
    ),
    option(_OUTPUT, "-q", "--quiet", is_flag=True, help="Print no progress and no statistics."),
)
_HELP = f"""Complete code or text at a cursor.

\b
  localspec complete -m coder.gguf app/main.py:12:5         line 12, column 5, counted as editors do
  localspec complete -m coder.gguf app/main.py:12           the end of line 12
  localspec complete -m coder.gguf --prefix-file before.txt --suffix-file after.txt
  echo 'def add(a, b):{CURSOR}' | localspec complete -m coder.gguf

Prints exactly the text to insert, without an added newline. Prints nothing, and succeeds, if no text is worth
inserting. Unless --raw-output is given, these parts are left out: text beyond the cursor's block, text that already
follows the cursor, repeats, further lines if text follows on the cursor's line, and an incomplete last line after a
complete one.

A model that was not trained to fill in code is refused (exit code 1). Ctrl-C prints the text so far (exit code 130).
"""


@click.pass_context
def _complete(context: click.Context, /, at: str | None, **flags: Any) -> None:
    from app.complete.command import run_complete
    from app.shell.log import open_log

    open_log()
    context.exit(run_complete(at, flags))


complete = click.command("complete", cls=SectionedCommand, help=_HELP, short_help="Complete code at a cursor.")(
    click.argument("at", required=False, metavar="[FILE:LINE:COL]", type=click.Path())(add_options(_complete, _OPTIONS))
)
