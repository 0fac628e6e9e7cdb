"""Models that an editor's settings may not name: files of the very project that is open.

Editors read settings from the project's folder, too, so a repository from elsewhere could name a file that it brought.
"""

from pathlib import Path

from app.shell.paths import project_folder
from models.errors import ModelFileError, UsageError
from models.library.catalog import find_model

_ALONE = "model:"


def check_outside_project(name: str) -> None:
    """Raise UsageError for a model whose file lies in the project's folder; the command line may name it."""
    name = name.removeprefix(_ALONE)
    if name and _is_inside(name):
        raise UsageError(
            f"An editor's settings name {name}, a file of this project.",
            cause="Such settings may come with the project, so they choose no file in it.",
            hint=f"Name it where the editor starts the server: localspec lsp {name}.",
        )


def _is_inside(name: str) -> bool:
    try:
        folder, home = project_folder(), Path.home().resolve()
        path = Path(find_model(name)).resolve()
    except (OSError, RuntimeError, ModelFileError):
        return False
    # A server that was started at home, or above it, has no project.
    return folder != home and folder not in home.parents and path.is_relative_to(folder) and path.exists()
