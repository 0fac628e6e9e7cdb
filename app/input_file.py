"""Files that flags name."""

from pathlib import Path

from app.text_encoding import decoded
from models.errors import UsageError


def read_file(flag: str, path: Path, *, strict: bool = False) -> str:
    """Return the text of a file with its own line ends, as it would come through a pipe; raises UsageError.

    Bytes that are no UTF-8 are replaced or, if `strict`, refused: in a form each character counts. NULs and damaged
    UTF-16 are refused in any case.
    """
    try:
        return decoded(path.read_bytes(), f"{flag} {path}", strict=strict)
    except OSError as error:
        is_pipe = (flag, str(path)) == ("-f", "-")
        hint = "Leave it out: piped text is added to the prompt without it." if is_pipe else "Check the path."
        raise UsageError(f"{flag} {path} can't be read.", cause=str(error.strerror), hint=hint) from error
