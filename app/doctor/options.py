"""The command `doctor`, its flags and help; what it does is imported when it runs."""

import click

from app.flags.options import ModelName

_HELP = """Diagnose engine, devices, memory, files, terminal and settings.

\b
  localspec doctor                  one line per check, and what to do where something is wrong or slow
  localspec doctor big.gguf         test decode with this model instead of the embedded starter model
  localspec doctor --json           for a bug report: no names, paths or keys, and no text of yours

Every line is marked ok, note (it works, but is slower or does less than it could) or problem. Exit codes: 0 no problem;
1 a problem. The first run of a build decodes a few tokens in a child process, which may take some seconds.
"""


@click.command(help=_HELP, short_help="Diagnose engine, devices, memory and settings.")
@click.argument("name", default="starter", type=ModelName("starter"), metavar="[MODEL]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with nothing private in it.")
@click.pass_context
def doctor(context: click.Context, /, *, name: str, as_json: bool) -> None:
    """Diagnose this machine."""
    from app.doctor.command import run_doctor
    from app.shell.log import open_log

    open_log()
    group = context.find_root().command
    assert isinstance(group, click.Group), "it is a command among others"
    context.exit(run_doctor(group, name, as_json=as_json))
