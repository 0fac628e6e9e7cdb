"""Commands that install a missing package into the environment of localspec."""

import sys
from importlib.util import find_spec
from pathlib import Path

_ENGINE = "llama-cpp-python"
_CHECKOUT = Path(__file__).parents[1]


def pip_command(verb: str, *words: str) -> str:
    """Return the command by which pip, or uv where there is no pip, changes the environment that localspec runs in."""
    python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
    what = " ".join([verb, *words])
    # What uv makes for a tool or a project has no pip, and its `uv pip` would use another environment.
    return f"{python} -m pip {what}" if find_spec("pip") else f"uv pip {what} --python {python}"


def rebuild_command(version: str) -> str:
    """Return the command that builds this version of the engine anew, whatever is cached of it."""
    if (_CHECKOUT / "pyproject.toml").is_file() and Path(sys.prefix).is_relative_to(_CHECKOUT):
        # It reads the flags for the compiler there.
        return f"uv sync --reinstall-package {_ENGINE}"
    return pip_command("install", "--force-reinstall", "--no-deps", "--no-cache-dir", f"{_ENGINE}=={version}")
