"""The command `doctor`, its flags and help; what it does is imported when it runs."""

import click

from app.options import ModelName

_HELP = """Look over this machine: the engine, its devices, memory, files, terminal and settings.

\b
  localspec doctor                  one line for each thing, and what to do where something is wrong or slow
  localspec doctor big.gguf         the test decode with this model, not with the embedded starter model
  localspec doctor --json           for a bug report: no names, no paths, no keys, nothing that was said

Every line is marked ok, note (it works, but slower or less than it could) or problem. Exit codes: 0 without a problem;
1 with one. The first time for a build a few tokens are decoded in a child process, which may take some seconds.
"""


@click.command(help=_HELP)
@click.argument("name", default="starter", type=ModelName("starter"), metavar="[MODEL]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with nothing private in it.")
@click.pass_context
def doctor(context: click.Context, /, *, name: str, as_json: bool) -> None:
    """Look over this machine."""
    from app.doctor.command import run_doctor
    from app.log import open_log

    open_log()
    group = context.find_root().command
    assert isinstance(group, click.Group), "it is a command among others"
    context.exit(run_doctor(group, name, as_json=as_json))
