"""What is typed in a chat, on a screen or line by line: a command, or a message with the files that it mentions."""

import re
from collections.abc import Sequence
from pathlib import Path

from app.chat_input.mentions import Expanded, expand, explicit

_COMMENT_OR_PATH = re.compile(r"/(?:\*|\S*/)")


def is_command(text: str) -> bool:
    """Tell whether a text is a command: it begins with a slash, and not as a comment ("//", "/*") or a path does."""
    return text.startswith("/") and _COMMENT_OR_PATH.match(text) is None


def with_files(text: str, pasted: Sequence[str] = ()) -> Expanded:
    """Return a message with what is in the files that it mentions, but for those in `pasted`; raises UsageError."""
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
