"""Files that flags name."""

from pathlib import Path

from models.errors import UsageError


def read_file(flag: str, path: Path) -> str:
    """Return the text of a file with its own line ends, as it would come through a pipe; raises UsageError."""
    try:
        return path.read_bytes().decode("utf-8-sig", errors="replace")
    except OSError as error:
        is_pipe = (flag, str(path)) == ("-f", "-")
        hint = "Leave it out: piped text is added to the prompt without it." if is_pipe else "Check the path."
        raise UsageError(f"{flag} {path} can't be read.", cause=str(error.strerror), hint=hint) from error
