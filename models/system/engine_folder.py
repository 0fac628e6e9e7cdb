"""Folder of llama.cpp's libraries, found without loading them."""

from importlib.util import find_spec
from pathlib import Path


def engine_folder() -> Path:
    """Return the folder of llama.cpp's files, found without loading them."""
    spec = find_spec("llama_cpp")
    return Path(spec.origin).parent / "lib" if spec and spec.origin else Path()
