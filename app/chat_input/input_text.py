"""Typed input of the chat screen and the line chat: commands, and messages with mentioned files."""

import re
from collections.abc import Sequence
from pathlib import Path

from app.chat_input.mentions import Expanded, expand, explicit

_COMMENT_OR_PATH = re.compile(r"/(?:\*|\S*/)")


def is_command(text: str) -> bool:
    """Return whether a text is a command: it begins with a slash, but is no comment ("//", "/*") and no path."""
    return text.startswith("/") and _COMMENT_OR_PATH.match(text) is None


def with_files(text: str, pasted: Sequence[str] = ()) -> Expanded:
    """Return a message with the content of its mentioned files; mentions in `pasted` stay text. Raises UsageError."""
    return expand(text, working_directory(), pasted)


def typed_again(text: str, pasted: Sequence[str]) -> str:
    """Return a text that, typed again, has the effect of one with pasted parts: their mentions are escaped."""
    return text if is_command(text) else explicit(text, working_directory(), pasted)


def working_directory() -> Path:
    """Return the working directory; once it is deleted that is ".", in which nothing is found."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path()
