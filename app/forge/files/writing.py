"""GGUF files that are put in place whole, written by the gguf package."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def whole_gguf(path: Path, architecture: str) -> Iterator[Any]:
    """Give a GGUFWriter, and put its file in place of `path` at the end; after any error `path` is as it was."""
    from gguf import GGUFWriter

    partial = path.with_suffix(".partial")
    file = GGUFWriter(partial, architecture)
    try:
        yield file
        file.write_header_to_file()
        file.write_kv_data_to_file()
        file.write_tensors_to_file()
        file.close()
        partial.replace(path)
    except BaseException:
        # Closing writes what is left, which fails again on a full disk.
        with suppress(OSError):
            file.close()
        partial.unlink(missing_ok=True)
        raise
