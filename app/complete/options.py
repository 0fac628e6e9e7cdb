"""The command `complete` and its flags."""

from typing import Any

import click

from app.options import (
    ALLOW_ROUNDING,
    DRAFT_MAX,
    DRAFTER,
    MODEL_OPTIONS,
    NO_ADAPT,
    SHAPING_OPTIONS,
    STRICT,
    ModelName,
    SectionedCommand,
    add_options,
    option,
)

CURSOR = "<|cursor|>"
_PLACE, _MODEL, _DRAFT = "Place", "Model and machine", "Speculation"
_COMPLETION, _SAMPLING, _OUTPUT = "Completion", "Sampling", "Output"
_ACCEPT = click.Choice(["coupled", "residual", "block", "typical"])
_SECONDS = click.FloatRange(min=0, min_open=True)
_CURSOR_HELP = "What marks the cursor in the text of a pipe; it must be there once."
_CONTEXT_HELP = "Another file that may help, such as one that is imported. Repeatable, the most helpful last."
_TIME_HELP = (
    "Time to speak. The first line is completed in any case; a later one that is cut is left out. "
    "Texts then differ from run to run."
)
_RAW_HELP = "All that the model says: repeats, what follows the cursor, and what is beyond the block."

_OPTIONS = (
    option(_PLACE, "--prefix-file", type=click.Path(), help="What is before the cursor, to the last character."),
    option(_PLACE, "--suffix-file", type=click.Path(), help="What is after the cursor."),
    option(_PLACE, "--cursor", default=CURSOR, metavar="TEXT", help=_CURSOR_HELP),
    option(_PLACE, "--context", multiple=True, type=click.Path(), metavar="FILE", help=_CONTEXT_HELP),
    option(_COMPLETION, "-n", "--n-predict", "predict", default=128, type=click.IntRange(min=1), help="Most tokens."),
    option(_COMPLETION, "--max-lines", type=click.IntRange(min=1), help="Most lines, empty ones not counted."),
    option(_COMPLETION, "--time-limit", type=_SECONDS, metavar="SECONDS", help=_TIME_HELP),
    option(
        _MODEL,
        "-m",
        "--model",
        "model_option",
        envvar="LOCALSPEC_MODEL",
        type=ModelName("starter"),
        help="A model that was trained to fill in code; localspec models ls shows which were.",
    ),
    *MODEL_OPTIONS[1:],
    DRAFTER,
    DRAFT_MAX,
    NO_ADAPT,
    option(_DRAFT, "--accept", default="coupled", type=_ACCEPT, help="How guesses are judged; see localspec run."),
    ALLOW_ROUNDING,
    STRICT,
    option(_SAMPLING, "--temp", default=0.0, type=float, help="Temperature; 0: always the likeliest token."),
    *SHAPING_OPTIONS,
    option(_SAMPLING, "-s", "--seed", default=-1, type=int, help="Same seed, same text; -1: a new one."),
    option(_OUTPUT, "--raw-output", is_flag=True, help=_RAW_HELP),
    option(
        _OUTPUT, "--json", "as_json", is_flag=True, help="One JSON object: text, finish, usage, timings, speculation."
    ),
    option(_OUTPUT, "-q", "--quiet", is_flag=True, help="No progress, no statistics."),
)
_HELP = f"""Print what is missing at a cursor in code or text.

\b
  localspec complete -m coder.gguf app/main.py:12:5         line 12, column 5, as editors and compilers count
  localspec complete -m coder.gguf app/main.py:12           at the end of line 12
  localspec complete -m coder.gguf --prefix-file before.txt --suffix-file after.txt
  echo 'def add(a, b):{CURSOR}' | localspec complete -m coder.gguf

What is printed is what to insert, to the last character: no line end is added. Nothing is printed where nothing is
worth inserting, and that is no failure. Left out are, without --raw-output: what is beyond the block of the cursor,
what follows the cursor already, repeats, further lines where text follows on the cursor's line, and a last line that
a limit cut, where a whole one is before it.

A model that was not trained to fill in code is refused (exit code 1). Ctrl-C prints what there is (exit code 130).
"""


@click.pass_context
def _complete(context: click.Context, /, at: str | None, **flags: Any) -> None:
    from app.complete.command import run_complete
    from app.log import open_log

    open_log()
    context.exit(run_complete(at, flags))


complete = click.command("complete", cls=SectionedCommand, help=_HELP, short_help="Print what is missing at a cursor.")(
    click.argument("at", required=False, metavar="[FILE:LINE:COL]", type=click.Path())(add_options(_complete, _OPTIONS))
)
