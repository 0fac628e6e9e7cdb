"""Models that an editor's settings may not name: files of the open project.

Editors also read settings from the project's folder, so a repository from elsewhere could select a file that it
contains.
"""

from pathlib import Path

from app.shell.paths import project_folder
from models.errors import ModelFileError, UsageError
from models.library.catalog import find_model

_ALONE = "model:"


def check_outside_project(name: str) -> None:
    """Raise UsageError for a model file inside the project's folder; the command line may name it."""
    name = name.removeprefix(_ALONE)
    if name and _is_inside(name):
        raise UsageError(
            f"The editor's settings name {name}, a file of this project.",
            cause="Such settings may come with the project, so they can't choose a file in it.",
            hint=f"Give it in the command that starts the server: localspec lsp {name}.",
        )


def _is_inside(name: str) -> bool:
    try:
        folder, home = project_folder(), Path.home().resolve()
        path = Path(find_model(name)).resolve()
    except (OSError, RuntimeError, ModelFileError):
        return False
    # A server started in the home folder, or above it, has no project.
    return folder != home and folder not in home.parents and path.is_relative_to(folder) and path.exists()
