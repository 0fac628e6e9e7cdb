"""Measurements that need not be made twice: a small JSON file in the cache folder."""

import json
from pathlib import Path


class Remembered:
    """Values by key, kept in a file that may be missing, damaged, or on a disk that can't be written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> int | None:
        """Return what was put under a key; None for nothing."""
        value = self._all().get(key)
        return value if isinstance(value, int) else None

    def put(self, key: str, value: int) -> None:
        """Keep a value; a file that can't be written costs a measurement at the next start, and nothing else."""
        partial = self._path.with_suffix(".partial")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps({**self._all(), key: value}, indent=1), encoding="utf-8")
            partial.replace(self._path)
        except OSError:
            return

    def _all(self) -> dict[str, object]:
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}
