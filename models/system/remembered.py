"""Store of measurements: a small JSON file in the cache folder, values by key.

Two processes may write at once: one waits for the other, and adds to what that has written, which may be the settings
that a minute of tuning found. Each writes a file of its own and renames it, so that no process reads half of one.
"""

import json
import logging
from contextlib import suppress
from pathlib import Path

from models.system.file_lock import locked
from models.system.sealed import UntrustedError, read_trusted, remove_sealed
from models.system.whole_file import write_whole

_MOST_BYTES = 16 << 20
_log = logging.getLogger("localspec.remembered")
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""Types of a value."""


class Remembered:
    """Values by key, kept in a file that may be missing, damaged, or on a disk that can't be written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> int | None:
        """Return the whole number or truth value put under a key; None for nothing, or for anything else."""
        value = self._all().get(key)
        return value if isinstance(value, int) else None

    def get_table(self, key: str) -> dict[str, Json] | None:
        """Return the table put under a key; None for nothing, or for anything else.

        A number is a name by the time it comes back: JSON knows no other keys.
        """
        value = self._all().get(key)
        return value if isinstance(value, dict) else None

    def put(self, key: str, value: Json) -> None:
        """Keep a value; a file that can't be written costs a measurement at the next start, and nothing else."""
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.is_dir() and not self._path.is_symlink():
                # What is no file under this name can't be replaced by one.
                remove_sealed(self._path)
            with locked(self._path.with_name(f"{self._path.name}.lock")):
                write_whole(self._path, json.dumps({**self._all(), key: value}, indent=1))

    def _all(self) -> dict[str, Json]:
        try:
            # A link that a person has made leads to the file; what that is, is checked there.
            known = json.loads(read_trusted(self._path.resolve(), _MOST_BYTES))
        except FileNotFoundError:
            return {}
        except (OSError, RuntimeError, ValueError, RecursionError, UntrustedError) as error:
            _log.warning("%s is damaged, and measured anew: %s", self._path, error)
            return {}
        return known if isinstance(known, dict) else {}
