"""The command line. Nothing heavy is imported before a command runs: `--help` must be instant."""

import sys
from contextlib import suppress
from typing import Any

import click
from click.core import ParameterSource

from app import __version__
from app.bench.options import bench_options
from app.catalog.options import check, models
from app.complete.options import complete
from app.completions import SHELLS, script
from app.config.files import passed_over, read_all, user_file
from app.doctor.options import doctor
from app.error_lines import asks_for_lines, errors_told
from app.history.options import history
from app.leaving import exit_code
from app.lsp.options import lsp
from app.options import ModelName, SectionedCommand, run_options
from app.serve.options import serve
from app.terminal import Terminal
from app.tune.options import tune_options
from app.verify.options import verify_options
from models.errors import UsageError

_HELP_WANTED = "app.cli: help wanted"
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_EPILOG = (
    "Exit codes: 0 ok; 1 failure; 2 usage; 3 model not found or corrupt; 4 incompatible pair; "
    "5 does not fit in memory; 6 outputs diverged; 130 interrupted."
)


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from app.paths import log_file

        click.echo(f"localspec {__version__}, log file {log_file()}")
        context.exit()


class _Commands(click.Group):
    """The commands; knows early whether help is what is wanted."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Note whether help is asked for, then parse."""
        before = arguments[: arguments.index("--")] if "--" in arguments else arguments
        context.meta[_HELP_WANTED] = bool({"-h", "--help"} & {*before})
        return super().parse_args(context, arguments)


def _was_given(context: click.Context, parameter: str) -> bool:
    """Tell whether a value stands on the command line, and is no default of a file or variable."""
    return context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE


@click.group(cls=_Commands, context_settings=_SETTINGS, epilog=_EPILOG)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show version and log file.",
)
@click.pass_context
def command_line(context: click.Context) -> None:
    """Fast, exact, offline language models: GGUF files, sped up by guessing ahead, checked by the model itself."""
    # Help has to work with any file, and so have completion and what is there to look at them.
    looks_at_them = context.invoked_subcommand in ("config", "doctor")
    lenient = context.resilient_parsing or context.meta[_HELP_WANTED] or looks_at_them
    with suppress(UsageError) if lenient else errors_told(as_json=asks_for_lines(sys.argv[1:])):
        context.default_map = read_all(command_line)
    if not lenient:
        _tell_passed_over(context.invoked_subcommand)


def _tell_passed_over(command: str | None) -> None:
    for source, keys in passed_over(command_line, command).items():
        what = f"{', '.join(keys)} of {source.path} is passed over: a project does not decide that"
        Terminal().warn(f"{what}. Say it on the command line, or in {user_file()}.")


@command_line.command(cls=SectionedCommand, epilog=_EPILOG)
@click.argument("model", required=False, type=ModelName("starter"), envvar="LOCALSPEC_MODEL")
@click.argument("prompt", nargs=-1)
@run_options
@click.pass_context
def run(context: click.Context, /, model: str | None, prompt: tuple[str, ...], **flags: Any) -> None:
    """Chat with MODEL, or answer PROMPT once.

    \b
      localspec run                                   chat with the embedded starter model
      localspec run big.gguf --draft tiny.gguf        chat, tiny guessing for big
      localspec run big.gguf "Why is the sky blue?"   one answer on stdout
      git diff | localspec run big.gguf "Summarize:"  a pipe is added to the question
      localspec run -C                                go on with the last conversation
      localspec run -m coder.gguf --edit main.py:12   edit, with what might come next at the cursor

    MODEL is a .gguf file, or "starter". Same seed, same text: a drafter changes the speed and nothing else.

    Other rules than "coupled" judge guesses by chance. "residual" and "block" keep the model's own distribution, and
    another draft gives another text; "typical" keeps what is plausible, and is approximate.

    What is said is saved, with --json only under -C or --resume; see localspec history. --no-history keeps nothing.
    """
    from app.log import open_log
    from app.start import start

    open_log()
    if flags["edit"] and context.get_parameter_source("temp") is ParameterSource.DEFAULT:
        # What is proposed is to be the likeliest, and the same each time.
        flags["temp"] = 0.0
    context.exit(start(model, prompt, flags, named=_was_given(context, "model")))


@command_line.command(cls=SectionedCommand, epilog=_EPILOG)
@click.argument("model", required=False, type=ModelName("starter"), envvar="LOCALSPEC_MODEL")
@bench_options
@click.pass_context
def bench(context: click.Context, /, model: str | None, **flags: Any) -> None:
    """Measure what drafting gains on this machine: arms beside plain decoding, on the same prompts.

    \b
      localspec bench big.gguf --draft tiny.gguf           auto, lookup and tiny against plain decoding
      localspec bench big.gguf --class edit,code --limit 4 --vs lookup:3,lookup:7
      localspec bench big.gguf --prompts mine.jsonl --json > figures.json
      localspec bench big.gguf --temp 0,0.7 --plot figures.svg

    A prompt file has one JSON object a line: {"id": "a", "class": "chat", "turns": ["Hi", "And then?"]}, or "prefix"
    and "suffix" around a hole instead of "turns". All turns are asked, each on top of the plain answers. Ends with a
    verdict for each class: promote an arm when the 95th percentile of its gaps is better than plain's, its speed at
    least 0.95 of plain's, and its text the same.
    """
    from app.bench.command import run_bench
    from app.bench.request import read_bench
    from app.log import open_log

    open_log()
    context.exit(run_bench(read_bench(model, flags)))


@command_line.command(cls=SectionedCommand, epilog=_EPILOG)
@click.argument("model", required=False, type=ModelName("starter"), envvar="LOCALSPEC_MODEL")
@verify_options
@click.pass_context
def verify(context: click.Context, /, model: str | None, **flags: Any) -> None:
    """Show that drafting leaves the text alone: answers with and without it, token by token, and a certificate.

    \b
      localspec verify big.gguf --draft tiny.gguf          auto, tiny and copied guesses, on a few prompts
      localspec verify big.gguf --temp 0,0.7,1 --limit 4   more of the built-in prompts, hotter
      localspec verify big.gguf --prompts mine.jsonl --json > certificate.json
      localspec verify big.gguf --strict                   with settings that are bit-identical at every width
      localspec verify big.gguf --statistics               the distribution, where tokens can't be compared
      localspec verify --audit http://127.0.0.1:8080 http://127.0.0.1:8081

    Where an answer forks, the text up to there is read anew with no drafter, in passes as wide as the drafted answer
    used: a gap between the two tokens that is within what rounding does there is a near-tie, any other fork a bug
    (exit code 6). Ctrl-C prints what is done.
    """
    from app.log import open_log
    from app.verify.dispatch import start_verify

    open_log()
    context.exit(start_verify(model, flags, named=_was_given(context, "model")))


@command_line.command(cls=SectionedCommand, epilog=_EPILOG)
@click.argument("model", required=False, type=ModelName("starter"), envvar="LOCALSPEC_MODEL")
@tune_options
@click.pass_context
def tune(context: click.Context, /, model: str | None, **flags: Any) -> None:
    """Measure how MODEL runs best on this machine, in under a minute; later runs use what was found.

    \b
      localspec tune big.gguf                            threads, attention, weights, the cost of each width
      localspec tune big.gguf --draft tiny.gguf          and how the draft model runs best
      localspec tune big.gguf --draft tiny.gguf --keep   and keep a copy of it that is quicker

    The text stays exact: a quicker setting is never taken for the price of shorter exact drafts, unless
    --allow-rounding says so. A flag given to `run` wins over what is stored. Ctrl-C shows what is done and stores
    nothing.
    """
    from app.log import open_log
    from app.tune.command import read_tune, run_tune

    open_log()
    context.exit(run_tune(read_tune(model, flags)))


@command_line.group(epilog=_EPILOG)
def drafter() -> None:
    """See or remove what the drafter remembers of earlier runs.

    What you asked and what was answered is kept as token ids for each project (the nearest folder upwards with a .git,
    else the working directory), and guesses are copied from it. It is text to anyone who has the model: the files can
    be read by you alone. `localspec run --no-memory`, or LOCALSPEC_NO_MEMORY=1, keeps and uses nothing.
    """


@drafter.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(*, as_json: bool) -> None:
    """Show where it is, how much there is, and of which projects."""
    from app.drafter_command import show_memory

    show_memory(as_json=as_json)


@drafter.command()
@click.option("--all", "everything", is_flag=True, help="Of all projects, not of this one alone.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def forget(context: click.Context, /, *, everything: bool, yes: bool) -> None:
    """Remove what is remembered of this project; asks first on a terminal."""
    from app.drafter_command import forget_memory

    context.exit(forget_memory(everything=everything, ask=not yes))


@command_line.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completions(shell: str) -> None:
    """Print the completion script of a shell.

    \b
      bash        eval "$(localspec completions bash)"            in ~/.bashrc
      zsh         eval "$(localspec completions zsh)"             in ~/.zshrc
      fish        localspec completions fish | source             in config.fish
      powershell  localspec completions powershell | Out-String | Invoke-Expression
    """
    click.echo(script(command_line, shell))


@command_line.group(epilog=_EPILOG)
def config() -> None:
    """See which settings hold here, and where they come from.

    A flag of run, bench, verify, tune, complete, serve or lsp can be set in a file, by a long name without the dashes:
    `temp = 0.2` for each of them that has such a flag and takes the value, or in a table such as [run] for one. Not so
    what is about one run, such as --prompt. The user's file counts everywhere, .localspec.toml in a project's folder
    only there, and it wins; a variable of the environment wins over both, and a flag over all.
    """


@config.command("show")
@click.option("--all", "everything", is_flag=True, help="Those that are built in, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show_config(*, everything: bool, as_json: bool) -> None:
    """Show the settings that files and environment change, with the origin of each."""
    from app.config.command import show_settings

    show_settings(command_line, everything=everything, as_json=as_json)


@config.command("path")
def config_path() -> None:
    """Print the user's settings file, there or not."""
    click.echo(user_file())


command_line.add_command(complete)
command_line.add_command(history)
command_line.add_command(serve)
command_line.add_command(lsp)
command_line.add_command(models)
command_line.add_command(check)
command_line.add_command(doctor)


def run_command_line() -> None:
    """Run, and leave with the exit code that says how it went."""
    sys.exit(exit_code(command_line))
