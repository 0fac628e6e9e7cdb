"""Removal of private names and paths from texts."""

import getpass
import platform
import re
import sys
from contextlib import suppress
from pathlib import Path

_PATH = re.compile(r"(?:~|[A-Za-z]:)?(?:[\\/][^\\/\s:'\"`,;]+)+[\\/]([^\\/\s:'\"`,;]+)")
_QUOTED = re.compile(r"""(['"`])(?:~|[A-Za-z]:)?[\\/][^'"`]*[\\/]([^\\/'"`]+)\1""")
"""A quoted path, which may contain spaces."""
_COMMON = frozenset({"localhost", "localdomain"})


class Private:
    """Private texts: names of user and machine, and their folders."""

    def __init__(self) -> None:
        self._home = str(Path.home())
        names = dict.fromkeys(_users(), "(user)") | dict.fromkeys(_hosts(), "(host)")
        # Longest first: one may be the beginning of another.
        self._names = dict(sorted(names.items(), key=lambda item: -len(item[0])))

    def at_home(self, text: str) -> str:
        """Return a text with ~ for the user's folder."""
        return text.replace(self._home, "~") if len(self._home) > 1 else text

    def removed(self, text: str) -> str:
        """Return a text with paths reduced to their last part, and without private names."""
        # Known folders first: they may contain spaces.
        text = _QUOTED.sub(r"\1.../\2\1", self.at_home(text.replace(sys.prefix, "/python")))
        text = _PATH.sub(r".../\1", text)
        for name, stand_in in self._names.items():
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", stand_in, text, flags=re.IGNORECASE)
        return text


def _users() -> list[str]:
    found = [Path.home().name]
    with suppress(OSError, KeyError, ImportError):
        found.append(getpass.getuser())
    return [name for name in found if name]


def _hosts() -> list[str]:
    whole = platform.node()
    return [name for name in (whole, whole.partition(".")[0]) if name and name.lower() not in _COMMON]
