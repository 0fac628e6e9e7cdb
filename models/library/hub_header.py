"""Header of a model on the hub: only as much of the file's beginning is fetched as the header needs."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from models.errors import FormatError, ModelFileError
from models.gguf.file import is_later_part
from models.gguf.header import Header, read_header, read_model
from models.library.hub import Hub
from models.library.hub_files import HubFile

_FIRST, _LATER = 2 << 20, 1 << 18
"""Bytes asked for at first: of the part that has the vocabulary, and of the other parts."""
_MORE = 2
_MOST = 32 << 20
"""Bytes after which a header is given up; the largest vocabularies take half of that."""


class HubHeaders:
    """Reads headers on the hub; they can be used until this is closed."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._folder = tempfile.TemporaryDirectory(prefix="localspec-", ignore_cleanup_errors=True)

    def __enter__(self) -> "HubHeaders":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def read(self, files: Sequence[HubFile]) -> Header | None:
        """Return the header of a model, given all its files; None for one that is too long or can't be kept here.

        Raises ModelFileError for a file that is no model at all, LocalspecError where the hub does not answer.
        """
        folder = Path(self._folder.name) / files[0].sha256
        folder.mkdir(exist_ok=True)
        paths = [folder / Path(file.name).name for file in files]
        try:
            # A part alone is refused: all must have begun before the first is read.
            fetched = [self._extend(file, path, 0) for file, path in zip(files, paths, strict=True)]
            if not all(map(self._is_whole, files, paths, fetched)):
                return None
        except OSError:
            return None
        return read_model(paths[0])

    def _is_whole(self, file: HubFile, path: Path, fetched: int) -> bool:
        """Fetch more until the header is whole; False for one that is too long."""
        while True:
            try:
                header = read_header(path)
            except ModelFileError as error:
                if fetched == file.size or isinstance(error, FormatError):
                    raise
            else:
                # The last tensor may end in the zeros that stand for what is not here.
                if all(tensor.name.strip("\0") == tensor.name != "" for tensor in header.tensors):
                    return True
            if fetched >= min(_MOST, file.size):
                return False
            fetched = self._extend(file, path, fetched)

    def _extend(self, file: HubFile, path: Path, fetched: int) -> int:
        """Fetch more of a file's beginning, the rest sparse and without room on the disk; return what is here now."""
        end = min(file.size, fetched * _MORE or (_LATER if is_later_part(path) else _FIRST))
        data = self._hub.beginning(file, fetched, end)
        with path.open("r+b" if fetched else "wb") as target:
            target.seek(fetched)
            target.write(data)
            target.truncate(file.size)
        return end
