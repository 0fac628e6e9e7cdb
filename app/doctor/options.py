"""The command `doctor`, its flags and help; its code is imported when it runs."""

import click

from app.flags.options import ModelName

_HELP = """Check engine, devices, memory, files, terminal and settings.

\b
  localspec doctor                  one line per check, with a remedy for each problem
  localspec doctor big.gguf         test decode with this model instead of the embedded starter model
  localspec doctor --json           for a bug report, without names, paths, keys and texts of yours

Every line is marked ok, note (works, but slower or with less function than possible) or problem. The first run of a
build decodes a few tokens in a child process, which may take some seconds. Exit codes: 0 no problem; 1 a problem.
"""


@click.command(help=_HELP, short_help="Check engine, devices, memory and settings.")
@click.argument("name", default="starter", type=ModelName("starter"), metavar="[MODEL]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object without private data.")
@click.pass_context
def doctor(context: click.Context, /, *, name: str, as_json: bool) -> None:
    """Diagnose this machine."""
    from app.doctor.command import run_doctor
    from app.shell.log import open_log

    open_log()
    group = context.find_root().command
    assert isinstance(group, click.Group), "it is a command among others"
    context.exit(run_doctor(group, name, as_json=as_json))
