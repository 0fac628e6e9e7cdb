"""The entry point: `localspec`, and `python -m app` from a checkout."""

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.shell.exit_codes import INTERRUPTED

if TYPE_CHECKING:
    import click

_PACKAGES = ("models", "drafters")


def main() -> None:
    """Run the command line, after a check that localspec's own packages are imported."""
    try:
        _be_sure_of_packages()
        from app.command_line.first_screen import opens_start_screen, run_start_screen

        if opens_start_screen(sys.argv[1:]):
            sys.exit(run_start_screen(_commands))
        from app.command_line.cli import run_command_line

        run_command_line()
    except KeyboardInterrupt:
        # Ctrl-C during the imports: no handler is installed yet.
        sys.exit(INTERRUPTED)


def _commands() -> "click.Group":
    from app.command_line.cli import command_line

    return command_line


def _be_sure_of_packages() -> None:
    home = Path(__file__).resolve().parent.parent
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if found != home / name:
            sys.exit(
                f"localspec: its package '{name}' is {f'hidden by {found}' if found else 'missing'}.\n"
                "Install localspec in an environment of its own: uv tool install localspec, or pipx install localspec."
            )


if __name__ == "__main__":
    main()
