"""The command `doctor`, its flags and help; its code is imported when it runs."""

import click
from click.core import ParameterSource

from app.flags.declaring import ModelName
from models.errors import UsageError

_HELP = """Check engine, devices, memory, files, terminal and settings.

\b
  localspec doctor                  one line per check, with a remedy for each problem
  localspec doctor big.gguf         test decode with this model instead of the embedded starter model
  localspec doctor --json           for a bug report, without names, paths, keys and texts of yours
  localspec doctor --clean          remove what localspec makes again: kernels, draft copies, measurements, log

Every line is marked ok, note (works, but slower or with less function than possible) or problem. The first run of a
build decodes a few tokens in a child process, which may take some seconds. Exit codes: 0 no problem; 1 a problem.

--clean asks first on a terminal. It keeps conversations, the drafter's memory and models, and names the command that
removes each. Kernels are compiled and models measured again when they are needed; run `localspec tune` again yourself.
"""


@click.command(help=_HELP, short_help="Check engine, devices, memory and settings.")
@click.argument("name", default="starter", type=ModelName("starter"), metavar="[MODEL]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object without private data.")
@click.option("--clean", "cleans", is_flag=True, help="Free disk space: remove what localspec makes again.")
@click.option("-y", "--yes", is_flag=True, help="With --clean: do not ask for confirmation.")
@click.pass_context
def doctor(context: click.Context, /, *, name: str, as_json: bool, cleans: bool, yes: bool) -> None:
    """Diagnose this machine, or free disk space."""
    if cleans:
        from app.doctor.cleaning import clean

        _check_alone(context)
        context.exit(clean(ask=not yes))
    if yes:
        raise UsageError("--yes confirms a removal, and there is none.", hint="Give --clean too.")
    from app.doctor.command import run_doctor
    from app.shell.log import open_log

    open_log()
    group = context.find_root().command
    assert isinstance(group, click.Group), "it is a command among others"
    context.exit(run_doctor(group, name, as_json=as_json))


def _check_alone(context: click.Context) -> None:
    """Refuse a model or --json beside --clean, which checks nothing."""
    for name, shown in (("name", "a model"), ("as_json", "--json")):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"--clean does not go with {shown}.", hint=f"Leave out {shown}, or --clean.")
