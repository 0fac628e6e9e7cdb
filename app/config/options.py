"""The commands of `localspec config`, their flags and help; their code is imported when they run."""

import click

from app.flags.epilog import EXIT_CODES


@click.group(epilog=EXIT_CODES)
def config() -> None:
    """Show the settings in effect and their origins.

    A flag of run, bench, verify, tune, complete, serve or lsp can be set in a file, by a long name without the dashes:
    `temp = 0.2` for every command that has the flag and accepts the value, or in a table such as [run] for one. Flags
    about a single run, such as --prompt, can't be set there. Precedence: flag, environment variable, project file
    (.localspec.toml in a project's folder), user file. A setting that contradicts a given flag is ignored. To turn off
    a flag that a file turns on, give its opposite: --no-quiet, or --adapt for --no-adapt.

    A project file may come with a repository from elsewhere. Its settings that choose files to load or read, or
    instruct the model, count only once the file is trusted. On a terminal localspec asks; otherwise use localspec
    config trust.
    """


@config.command("show", short_help="Show settings and their origins.")
@click.option("--all", "everything", is_flag=True, help="Include the built-in defaults.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def show_config(context: click.Context, /, *, everything: bool, as_json: bool) -> None:
    """Show the settings that files and environment change, with the origin of each."""
    from app.config.command import show_settings

    show_settings(_commands(context), everything=everything, as_json=as_json)


@config.command("path", short_help="Print the path of the user's settings file.")
def config_path() -> None:
    """Print the path of the user's settings file, whether it exists or not."""
    from app.config.places import user_file
    from app.shell.terminal import Terminal

    Terminal().say(f"{user_file()}\n")


@config.command("trust", short_help="Trust a project's settings file.")
@click.argument("folder", required=False, type=click.Path())
@click.pass_context
def trust_config(context: click.Context, /, *, folder: str | None) -> None:
    """Trust the settings file of the project in FOLDER (default: here) to choose models and files.

    Prints the settings that then count. After a change of the file, localspec asks again.
    """
    from app.config.project import trust_project

    trust_project(_commands(context), folder)


@config.command("untrust", short_help="Withdraw the trust in a project's settings file.")
@click.argument("folder", required=False, type=click.Path())
@click.pass_context
def untrust_config(context: click.Context, /, *, folder: str | None) -> None:
    """Withdraw the trust: settings about models and files in FOLDER's project (default: here) are ignored again."""
    from app.config.project import untrust_project

    untrust_project(_commands(context), folder)


def _commands(context: click.Context) -> click.Group:
    """Return the group of all commands, whose flags a settings file can set."""
    group = context.find_root().command
    assert isinstance(group, click.Group), "it is a command among others"
    return group
