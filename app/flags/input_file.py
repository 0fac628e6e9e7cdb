"""Files that flags name."""

from pathlib import Path

from app.shell.input_bytes import read_input
from app.shell.text_encoding import decoded


def read_file(flag: str, path: Path, *, strict: bool = False) -> str:
    """Return the text of a file with its own line ends, as from a pipe; raises UsageError.

    Invalid UTF-8 bytes are replaced or, if `strict`, refused: in a form each character counts. NULs and damaged UTF-16
    are always refused.
    """
    is_pipe = (flag, str(path)) == ("-f", "-")
    hint = "Leave out the flag: piped text is always added to the prompt." if is_pipe else "Check the path."
    data = read_input(f"{flag} {path}", path, hint)
    return decoded(data, f"{flag} {path}", strict=strict)
