"""Files that flags name."""

from pathlib import Path

from app.input_bytes import read_input
from models.errors import UsageError


def read_file(flag: str, path: Path, *, strict: bool = False) -> str:
    """Return the text of a file with its own line ends, as it would come through a pipe; raises UsageError.

    Bytes that are no UTF-8 are replaced or, if `strict`, refused: in a form each character counts.
    """
    is_pipe = (flag, str(path)) == ("-f", "-")
    hint = "Leave it out: piped text is added to the prompt without it." if is_pipe else "Check the path."
    data = read_input(f"{flag} {path}", path, hint)
    try:
        return data.decode("utf-8-sig", errors="strict" if strict else "replace")
    except UnicodeDecodeError as error:
        where = f"At byte {error.start:,} there is {error.object[error.start]:#04x}."
        raise UsageError(f"{flag} {path} is no UTF-8.", cause=where, hint="Save it as UTF-8.") from error
