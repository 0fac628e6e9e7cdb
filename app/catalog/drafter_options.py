"""The commands of `localspec drafter`, their flags and help; their code is imported when they run."""

import click

from app.flags.epilog import EXIT_CODES


@click.group(epilog=EXIT_CODES)
def drafter() -> None:
    """Show or remove the drafter's memory of earlier runs.

    The drafter copies drafts from earlier prompts and answers. They are kept as token ids, for each project (the
    nearest folder upwards with a .git, else the working directory). The model turns token ids back into text, so only
    you can read the files. What `localspec run --online` learns lies there too. `localspec run --no-memory`, or
    LOCALSPEC_NO_MEMORY=1, keeps and uses nothing.
    """


@drafter.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(*, as_json: bool) -> None:
    """Show the folder, size and projects of the drafter's memory."""
    from app.catalog.drafter_command import show_memory

    show_memory(as_json=as_json)


@drafter.command(short_help="Remove the drafter's memory of this project.")
@click.option("--all", "everything", is_flag=True, help="Remove the memory of all projects.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def forget(context: click.Context, /, *, everything: bool, yes: bool) -> None:
    """Remove the drafter's memory of this project. On a terminal, asks first."""
    from app.catalog.drafter_command import forget_memory

    context.exit(forget_memory(everything=everything, ask=not yes))
