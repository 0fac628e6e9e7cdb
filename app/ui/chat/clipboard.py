"""Copies of text, also in a private file for terminals without OSC 52."""

import os
from pathlib import Path

from app.history.typed import copied_file
from models.system.counted import counted


def keep_copy(text: str) -> Path | None:
    """Write a copied text to the one file for it, readable by its owner alone; None: it can't be written."""
    path = copied_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Private before it has content, also if it was there with another mode.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            path.chmod(0o600)
            file.write(text.encode("utf-8", errors="replace"))
    except OSError:
        return None
    return path


def copied_note(text: str, what: str, path: Path | None) -> str:
    """Return the notice after copying; terminals do not report whether they took the text."""
    size = counted(len(text), "character")
    where = f" If your terminal does not support OSC 52, the text is also in {path}" if path else ""
    return f"Copied {what}, {size}.{where}"
