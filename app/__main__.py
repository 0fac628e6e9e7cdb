"""The entry point: `localspec`, and `python -m app` from a checkout."""

import importlib.util
import sys
from pathlib import Path

from app.shell.exit_codes import INTERRUPTED

_PACKAGES = ("models", "drafters")


def main() -> None:
    """Run the command line, unless another package of the same name stands in our way."""
    try:
        _be_sure_of_packages()
        from app.command_line.cli import run_command_line

        run_command_line()
    except KeyboardInterrupt:
        # It came while the command line was still imported, where nobody else is there to hear it.
        sys.exit(INTERRUPTED)


def _be_sure_of_packages() -> None:
    home = Path(__file__).resolve().parent.parent
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if found != home / name:
            sys.exit(
                f"localspec: the package '{name}' beside it is not its own, but {found or 'missing'}.\n"
                "Install localspec on its own: uv tool install localspec, or pipx install localspec."
            )


if __name__ == "__main__":
    main()
