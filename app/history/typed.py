"""What is kept beside the conversations: what was typed, so that Up brings it back, and what was copied last."""

from collections.abc import Sequence
from pathlib import Path

from app.shell.paths import history_file, prompts_file, state_folder
from models.errors import LocalspecError
from models.system.file_lock import locked

_PATIENCE = 5.0
"""Seconds to wait for a chat that is writing."""


def typed_files() -> list[Path]:
    """Return the files that hold prompts: those of both chats, and what a chat that was killed left half written."""
    unfinished = prompts_file().parent.glob(f"{prompts_file().name}*.partial")
    return [path for path in (history_file(), prompts_file(), *unfinished) if path.exists()]


def copied_file() -> Path:
    """Return the file of the text that was copied last, for terminals that take no copies."""
    return state_folder() / "copied.txt"


def remove_kept(files: Sequence[Path]) -> None:
    """Remove files of both kinds; raises LocalspecError where one can't be."""
    if not files:
        return
    try:
        # A chat that is shortening its file would put the old prompts back.
        with locked(prompts_file().with_name(f"{prompts_file().name}.lock"), _PATIENCE):
            for path in files:
                path.unlink(missing_ok=True)
    except OSError as error:
        places = ", ".join(map(str, files))
        raise LocalspecError(
            "What was typed and copied can't be removed.", cause=str(error), hint=f"It is in {places}."
        ) from error
