"""Prompts of this and earlier sessions, walked with Up and Down, with unsent text at the end.

Stored as JSON lines, since a prompt can have many. Programs that chat at the same time write to one file: each adds
under a lock, and shortens the file under the same lock.
"""

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from app.shell.safe_text import storable
from models.system.bounded_read import LARGEST_RECORD, open_regular
from models.system.file_lock import locked

_MOST = 1000
_SLACK = 200
"""Entries over the most before the file is shortened: rewriting it at every prompt would be for nothing."""
_LONGEST = 1 << 16
"""Characters of a prompt that is stored; longer ones can be had again in this session alone."""
_PATIENCE = 1.0
"""Seconds to wait for another program: the user is typing."""


class PromptHistory:
    """Prompts, oldest first, and the current position among them."""

    def __init__(self, path: Path, *, keep: bool = True) -> None:
        """Read what is stored; with `keep` false nothing is written."""
        self.keep = keep
        """Whether what is sent is stored for later sessions."""
        self._path = path
        self._entries = _read(path)[-_MOST:]
        self._aside: set[str] = set()
        """Entries that were not sent."""
        self._edited: dict[int, str] = {}
        self._at = len(self._entries)

    @property
    def is_walked(self) -> bool:
        """Whether the user is at one of its prompts, and not at the unsent one."""
        return self._at < len(self._entries)

    def older(self, current: str) -> str | None:
        """Return the prompt before the one shown, None at the first; `current`, as it was changed, is kept."""
        return self._go(self._at - 1, current)

    def newer(self, current: str) -> str | None:
        """Return the prompt after the one shown, in the end the unsent one; None there."""
        return self._go(self._at + 1, current)

    def add(self, text: str, expand: Callable[[str], str] = str) -> None:
        """Add a sent prompt; a repeat of the last prompt is stored once. Up still reaches earlier prompts as changed.

        `expand` is as of `set_aside`. A file that can't be written costs a prompt in the history, and nothing else.
        """
        for changed in map(expand, self._edited.values()):
            if changed != text:
                self._keep(changed)
        if text in self._aside:
            # Among those that were sent it is a new one, and stored as such.
            self._aside.remove(text)
            self._entries.remove(text)
        if not self._entries or self._entries[-1] != text:
            self._entries.append(text)
            if self.keep and len(text) <= _LONGEST:
                with suppress(OSError):
                    self._store(text)
        self._edited.clear()
        self._at = len(self._entries)

    def set_aside(self, text: str, expand: Callable[[str], str] = str) -> None:
        """Keep an unsent prompt that another text replaces; Up reaches it in this session.

        `expand` returns all of the unsent one at the end, which was shown with placeholders: they end with the prompt.
        """
        # The one at the end would be hidden by it.
        for unsent in (expand(self._edited.pop(len(self._entries), "")), text):
            self._keep(unsent)
        self._at = len(self._entries)

    def _keep(self, unsent: str) -> None:
        """Add an unsent prompt, unless it is there."""
        if unsent.strip() and unsent not in self._entries:
            self._entries.append(unsent)
            self._aside.add(unsent)

    def _go(self, to: int, current: str) -> str | None:
        if not 0 <= to <= len(self._entries):
            return None
        self._edited[self._at] = current
        self._at = to
        return self._edited.get(to, self._entries[to] if to < len(self._entries) else "")

    def _store(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._path.with_name(self._path.name + ".lock"), _PATIENCE):
            # Prompts are private: the file gets its mode before it has content.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
            handle = os.open(self._path, flags, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8") as file:
                file.write(json.dumps({"text": storable(text)}) + "\n")
            self._shorten()

    def _shorten(self) -> None:
        lines, is_whole = _last_lines(self._path)
        if len(lines) <= _MOST + _SLACK and is_whole:
            return
        handle, partial = tempfile.mkstemp(prefix=self._path.name, suffix=".partial", dir=self._path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(lines[-_MOST:])
            Path(partial).replace(self._path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise


def _read(path: Path) -> list[str]:
    try:
        lines, _ = _last_lines(path)
    except OSError:
        return []
    return [text for line in lines if (text := _text(line)) is not None]


def _last_lines(path: Path) -> tuple[list[bytes], bool]:
    """Return the lines of the last megabytes of a file, and whether these are all of it; raises OSError."""
    with open_regular(path) as file:
        before = max(0, os.fstat(file.fileno()).st_size - LARGEST_RECORD)
        file.seek(before)
        lines = file.read(LARGEST_RECORD).splitlines(keepends=True)
    # The first line of a part may lack its beginning.
    return lines[1:] if before else lines, not before


def _text(line: bytes) -> str | None:
    try:
        text = json.loads(line)["text"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return text if isinstance(text, str) else None
