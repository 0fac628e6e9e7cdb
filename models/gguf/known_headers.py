"""Cache of headers on disk, valid as long as a file's size, time and path stay unchanged."""

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from models.gguf.model_info import ModelInfo, glance
from models.gguf.shape import Shape
from models.gguf.strings import KnownStrings
from models.system.sealed import UntrustedError, read_trusted, remove_sealed
from models.system.whole_file import write_whole

_MOST_BYTES = 64 << 20
_FORMAT = 4
"""Raised when what is told of a model changes."""


class KnownHeaders:
    """Reads headers, each once as long as its file stays as it is."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._known = _read(file)
        self._used: dict[str, Any] = {}
        self._strings = KnownStrings()

    def info(self, path: Path) -> ModelInfo:
        """Return what a model says of itself; raises ModelFileError as `glance` does."""
        state, key = _state(path), str(path.absolute())
        entry = self._known.get(key)
        if isinstance(entry, dict) and entry.get("state") == state:
            # A file written by another release, or by hand.
            with suppress(KeyError, TypeError, ValueError):
                info = _from_json(entry["info"], path)
                self._used[key] = entry
                return info
        info = glance(path, self._strings)
        # Of a split model the other parts may come and go.
        if state and info.files == 1:
            self._used[key] = {"state": state, "info": asdict(info) | {"path": ""}}
        return info

    def save(self) -> None:
        """Keep what was asked for; a folder that can't be written costs the next reader a second."""
        if self._file is None or self._used == self._known:
            return
        text = json.dumps({"format": _FORMAT, "headers": self._used})
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            if self._file.is_dir() and not self._file.is_symlink():
                remove_sealed(self._file)
            write_whole(self._file, text)


def _read(file: Path | None) -> dict[str, Any]:
    with suppress(OSError, RuntimeError, ValueError, RecursionError, UntrustedError):
        record = json.loads(read_trusted(file.resolve(), _MOST_BYTES)) if file else None
        if isinstance(record, dict) and record.get("format") == _FORMAT and isinstance(record.get("headers"), dict):
            headers: dict[str, Any] = record["headers"]
            return headers
    return {}


def _state(path: Path) -> list[int]:
    try:
        state = path.stat()
    except OSError:
        return []
    return [state.st_size, state.st_mtime_ns, state.st_ino]


def _from_json(record: dict[str, Any], path: Path) -> ModelInfo:
    kept = {**record, "path": path, "fim": tuple(record["fim"]), "shape": Shape(**record["shape"])}
    return ModelInfo(**kept)
