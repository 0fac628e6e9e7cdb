"""Texts saved beside the conversations: typed prompts, recalled with Up, and the last copied text."""

from collections.abc import Sequence
from pathlib import Path

from app.shell.paths import history_file, prompts_file, state_folder
from models.errors import LocalspecError
from models.system.file_lock import locked

_PATIENCE = 5.0
"""Seconds to wait for a chat that is writing."""


def typed_files() -> list[Path]:
    """Return the files of prompts: those of both chats, and partial ones of a killed chat."""
    unfinished = prompts_file().parent.glob(f"{prompts_file().name}*.partial")
    return [path for path in (history_file(), prompts_file(), *unfinished) if path.exists()]


def copied_file() -> Path:
    """Return the file of the last copied text, for terminals without a clipboard."""
    return state_folder() / "copied.txt"


def remove_kept(files: Sequence[Path]) -> None:
    """Remove files of both kinds; raises LocalspecError for one that can't be removed."""
    if not files:
        return
    try:
        # A chat that shortens its file would restore the old prompts.
        with locked(prompts_file().with_name(f"{prompts_file().name}.lock"), _PATIENCE):
            for path in files:
                path.unlink(missing_ok=True)
    except OSError as error:
        places = ", ".join(map(str, files))
        raise LocalspecError(
            "The prompt history and the copied text can't be removed.",
            cause=str(error),
            hint=f"The files are {places}.",
        ) from error
