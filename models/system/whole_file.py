"""Atomic writing of small files: a reader sees the old file or the new one, never a part."""

import os
import secrets
from pathlib import Path

PRIVATE, SHARED = 0o600, 0o666
"""Modes of a new file: for its owner alone, or for whomever the umask lets read new files."""


def write_whole(path: Path, text: str, mode: int = PRIVATE) -> None:
    """Put a text into a file, or that which it links to, in place of what is there; raises OSError, and that stays.

    No reader sees half of it, and what fails leaves nothing beside it: on a full disk no other file would go away.
    """
    # A link that a person has made, as to a pair card kept with other settings elsewhere, goes on leading there.
    path = Path(os.path.realpath(path))
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}.partial")
    try:
        # The mode goes to `open`, which alone knows the umask; asking for that would change it for other threads.
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            # Without it a machine that goes down may keep the new name, and none of the bytes.
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
