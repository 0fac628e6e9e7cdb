"""Files that flags name."""

from pathlib import Path

from app.shell.input_bytes import read_input
from app.shell.text_encoding import decoded


def read_file(flag: str, path: Path, *, strict: bool = False) -> str:
    """Return the text of a file with its own line ends, as it would come through a pipe; raises UsageError.

    Bytes that are no UTF-8 are replaced or, if `strict`, refused: in a form each character counts. NULs and damaged
    UTF-16 are refused in any case.
    """
    is_pipe = (flag, str(path)) == ("-f", "-")
    hint = "Leave it out: piped text is added to the prompt without it." if is_pipe else "Check the path."
    data = read_input(f"{flag} {path}", path, hint)
    return decoded(data, f"{flag} {path}", strict=strict)
