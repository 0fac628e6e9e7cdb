"""The commands and their help texts. Heavy imports wait until a command runs: `--help` must be instant."""

import sys
from contextlib import suppress
from typing import Any

import click
from click.core import ParameterSource

from app import __version__
from app.bench.options import bench_options
from app.catalog.drafter_options import drafter
from app.catalog.options import check, models
from app.command_line.completions import SHELLS, script
from app.command_line.run_exit import exit_code
from app.complete.options import complete
from app.config.files import read_all
from app.config.options import config
from app.config.project import consider_project
from app.config.schema import commands_of
from app.doctor.options import doctor
from app.flags.declaring import NOTED, NOTES, ModelName, SectionedCommand
from app.flags.epilog import EXIT_CODES
from app.flags.options import run_options
from app.flags.precedence import given_flags, was_given
from app.forge.options import forge
from app.history.options import history
from app.lsp.options import lsp
from app.manual.options import manual_help
from app.serve.options import serve
from app.shell.error_lines import asks_for_lines, reported_errors
from app.shell.terminal import Terminal
from app.tune.options import tune_options
from app.verify.options import verify_options
from app.worker.options import worker
from models.errors import UsageError
from models.system.home import check_home

_BENCH = "Measure the speed-up from drafting on this machine."
_VERIFY = "Verify that drafting does not change the text."
_TUNE = "Find the fastest settings for MODEL on this machine."
_HELP_WANTED = "app.command_line.cli: help wanted"
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from app.shell.paths import log_file

        Terminal().say(f"localspec {__version__}, log file {log_file()}\n")
        context.exit()


class _Commands(click.Group):
    """The group of all commands; notes early whether help is requested."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Note a request for help, then parse; raises UsageError for a user without a home folder."""
        before = arguments[: arguments.index("--")] if "--" in arguments else arguments
        context.meta[_HELP_WANTED] = bool({"-h", "--help"} & {*before}) or before[:1] == ["help"]
        if not context.meta[_HELP_WANTED]:
            check_home()
        return super().parse_args(context, arguments)


@click.group(cls=_Commands, context_settings=_SETTINGS, epilog=EXIT_CODES, invoke_without_command=True)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and the path of the log file.",
)
@click.pass_context
def command_line(context: click.Context) -> None:
    """Fast, exact, offline language models: GGUF files, made faster by exact speculative decoding.

    On a terminal, localspec without a command opens a start screen: models on this machine, the last conversations, and
    models to get. `localspec help` lists the topics of the manual.
    """
    if context.invoked_subcommand is None:
        context.exit(_open_start(context))
    if context.invoked_subcommand not in commands_of(command_line):
        return
    # Help and completion must work even with a broken settings file.
    lenient = context.resilient_parsing or context.meta[_HELP_WANTED]
    with suppress(UsageError, RuntimeError) if lenient else reported_errors(as_json=asks_for_lines(sys.argv[1:])):
        if not lenient:
            context.meta[NOTES], context.meta[NOTED] = consider_project(command_line, context.invoked_subcommand)
        context.default_map = read_all(command_line)


def _open_start(context: click.Context) -> int:
    """Open the start screen, then what was chosen there; without a full-screen terminal, print the help."""
    from app.command_line.first_screen import can_show_screen, open_start_screen

    if can_show_screen():
        return open_start_screen(lambda: command_line)
    Terminal().say(context.get_help() + "\n")
    return 0


@command_line.command(cls=SectionedCommand, epilog=EXIT_CODES)
@click.argument("model", required=False, type=ModelName("starter"), envvar="LOCALSPEC_MODEL")
@click.argument("prompt", nargs=-1)
@run_options
@click.pass_context
def run(context: click.Context, /, model: str | None, prompt: tuple[str, ...], **flags: Any) -> None:
    """Chat with MODEL, or answer PROMPT once.

    \b
      localspec run                                   chat with the embedded starter model
      localspec run big.gguf --draft tiny.gguf        chat; tiny proposes tokens, big verifies them
      localspec run big.gguf "Why is the sky blue?"   one answer on stdout
      git diff | localspec run big.gguf "Summarize:"  piped text is added to the prompt
      localspec run -C                                continue the last conversation
      localspec run -m coder.gguf --edit main.py:12   edit, with completions at the cursor

    MODEL is a .gguf file, or a name that `localspec models ls` shows. The seed determines the text. A drafter changes
    only the speed.

    With --accept "residual" or "block", drafts are accepted at random: the model's distribution is preserved, but the
    text depends on the drafts. "typical" accepts plausible tokens and is approximate.

    Conversations are saved, see localspec history; with --json only if -C or --resume is given. --no-history saves
    nothing.
    """
    from app.command_line.start import start
    from app.shell.log import open_log

    open_log()
    if flags["edit"] and context.get_parameter_source("temp") is ParameterSource.DEFAULT:
        # Completions must be the most likely text, and repeatable.
        flags["temp"] = 0.0
    context.exit(start(model, prompt, flags, named=was_given(context, "model"), given=given_flags(context)))


@command_line.command(cls=SectionedCommand, epilog=EXIT_CODES, short_help=_BENCH)
@click.argument("model", required=False, type=ModelName("starter"), envvar="LOCALSPEC_MODEL")
@bench_options
@click.pass_context
def bench(context: click.Context, /, model: str | None, **flags: Any) -> None:
    """Measure the speed-up of drafting on this machine: drafters against plain decoding, on the same prompts.

    \b
      localspec bench big.gguf --draft tiny.gguf           auto, lookup and tiny against plain decoding
      localspec bench big.gguf --class edit,code --limit 4 --vs lookup:3,lookup:7
      localspec bench big.gguf --prompts mine.jsonl --json > figures.json
      localspec bench big.gguf --temp 0,0.7 --plot figures.svg
      localspec bench big.gguf --vs all                    every method that works here, in a league table
      localspec bench big.gguf --suite spec-bench question.jsonl --limit 10

    A prompt file has one JSON object per line: {"id": "a", "class": "chat", "turns": ["Hi", "And then?"]}, or "prefix"
    and "suffix" around a gap instead of "turns". Each turn follows plain answers to the earlier turns. The report ends
    with a verdict for each class. An arm is a drafter with its draft length. It is promoted if its text is identical to
    plain decoding's, its speed at least 0.95 of it, and the 95th percentile of the times between tokens shorter.
    """
    from app.bench.command import run_bench
    from app.bench.request import read_bench
    from app.shell.log import open_log

    open_log()
    context.exit(run_bench(read_bench(model, flags)))


@command_line.command(cls=SectionedCommand, epilog=EXIT_CODES, short_help=_VERIFY)
@click.argument("model", required=False, type=ModelName("starter"), envvar="LOCALSPEC_MODEL")
@verify_options
@click.pass_context
def verify(context: click.Context, /, model: str | None, **flags: Any) -> None:
    """Verify that drafting does not change the text: compare answers token by token and print a certificate.

    \b
      localspec verify big.gguf --draft tiny.gguf          auto, tiny and copied drafts, on a few prompts
      localspec verify big.gguf --temp 0,0.7,1 --limit 4   more built-in prompts, higher temperatures
      localspec verify big.gguf --prompts mine.jsonl --json > certificate.json
      localspec verify big.gguf --strict                   settings that are bit-exact at every width
      localspec verify big.gguf --statistics               compare distributions instead of tokens
      localspec verify --audit http://127.0.0.1:8080 http://127.0.0.1:8081

    Where two answers fork, the text up to the fork is evaluated again without a drafter, in passes as wide as those of
    the drafted answer. If the gap between the two tokens is within the rounding error, the fork is a near-tie. Any
    other fork is a bug (exit code 6). Ctrl-C prints the results so far.
    """
    from app.shell.log import open_log
    from app.verify.dispatch import start_verify

    open_log()
    named, given = was_given(context, "model"), given_flags(context)
    context.exit(start_verify(model, flags, named=named, given=given))


@command_line.command(cls=SectionedCommand, epilog=EXIT_CODES, short_help=_TUNE)
@click.argument("model", required=False, type=ModelName("starter"), envvar="LOCALSPEC_MODEL")
@tune_options
@click.pass_context
def tune(context: click.Context, /, model: str | None, **flags: Any) -> None:
    """Find the fastest settings for MODEL on this machine, in under a minute; later runs use them.

    \b
      localspec tune big.gguf                            threads, attention, weights, cost of each pass width
      localspec tune big.gguf --draft tiny.gguf          and the fastest settings of the draft model
      localspec tune big.gguf --draft tiny.gguf --keep   and keep a faster copy of the draft model

    The text stays exact: a faster setting that would shorten exact drafts is used only with --allow-rounding. A flag
    given to `run` overrides the stored setting. Ctrl-C shows the results so far and stores nothing.
    """
    from app.shell.log import open_log
    from app.tune.command import read_tune, run_tune

    open_log()
    context.exit(run_tune(read_tune(model, flags, given_flags(context))))


@command_line.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completions(shell: str) -> None:
    """Print the completion script for a shell.

    \b
      bash        eval "$(localspec completions bash)"            in ~/.bashrc
      zsh         eval "$(localspec completions zsh)"             in ~/.zshrc
      fish        localspec completions fish | source             in config.fish
      powershell  localspec completions powershell | Out-String | Invoke-Expression
    """
    Terminal().say(script(command_line, shell) + "\n")


command_line.add_command(drafter)
command_line.add_command(config)
command_line.add_command(complete)
command_line.add_command(history)
command_line.add_command(serve)
command_line.add_command(lsp)
command_line.add_command(worker)
command_line.add_command(forge)
command_line.add_command(models)
command_line.add_command(check)
command_line.add_command(doctor)
command_line.add_command(manual_help)


def run_command_line() -> None:
    """Run the command line, and exit with its exit code."""
    sys.exit(exit_code(command_line))
