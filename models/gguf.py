"""Before llama.cpp opens a file: is it there, and is it a GGUF at all?"""

from pathlib import Path

from models.errors import ModelFileError

_MAGIC = b"GGUF"
_SHORTEST = 24
"""Bytes of the fixed header: magic, version, tensor count, metadata count."""


def check_file(path: Path) -> None:
    """Raise ModelFileError unless the file exists, can be read and starts like a GGUF."""
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder, not a model.", hint="Name the .gguf file inside it.")
    try:
        with path.open("rb") as file:
            head = file.read(_SHORTEST)
    except FileNotFoundError:
        hint = "Check the path; `starter` names the embedded model."
        raise ModelFileError(f"There is no file {path}.", hint=hint) from None
    except OSError as error:
        raise ModelFileError(f"{path} can't be read.", cause=str(error), hint="Check its permissions.") from error
    if head[:4] != _MAGIC:
        raise ModelFileError(
            f"{path.name} is not a GGUF file: it starts with {head[:4]!r}, not {_MAGIC!r}.",
            hint="localspec runs GGUF models; other formats have to be converted first.",
        )
    if len(head) < _SHORTEST:
        raise ModelFileError(f"{path.name} is cut short: {len(head)} bytes.", hint="Fetch it again.")
