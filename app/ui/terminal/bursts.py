"""Detection of pastes by timing, for terminals without paste marks: their line ends must not send."""

import re
from collections.abc import Callable

_BEGIN, _END = "\x1b[200~", "\x1b[201~"
"""Paste marks that a terminal sends before and after pasted text."""
_LINES = re.compile(r"[^\r\n]*[\r\n]+[^\r\n]")
"""A line end and something behind it."""
_KEYS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""Characters of keys that are rare in text."""
_PAUSE = 0.03
"""Seconds without a byte that end a burst: a terminal sends the parts of a paste within a few milliseconds, and two
keys that are typed are further apart."""
_QUICK = 0.01
"""Seconds after a character within which an Enter is too early for a finger."""
_MOST = 1 << 20
"""Characters of a burst; what is longer goes on as the next one."""


class Bursts:
    """Finds lines that came at once, and puts the marks of a paste around them."""

    def __init__(self, more: Callable[[float], str], clock: Callable[[], float]) -> None:
        """Take what returns the characters that come within some seconds, "" for none, and a clock in seconds."""
        self._more = more
        self._clock = clock
        self._typed_at = float("-inf")

    def mark(self, sent: str) -> str:
        """Return what was sent, as a paste where it is more than a line, with all that belongs to it."""
        quick = len(sent) > 1 or self._clock() - self._typed_at < _QUICK
        if quick and sent[-1:] in ("\r", "\n") and _is_text(sent):
            # Enter behind a text that came at once may be the end of a paste's first line.
            sent = self._whole(sent)
        elif _is_lines(sent):
            sent = self._whole(sent)
        self._typed_at = self._clock()
        return f"{_BEGIN}{sent}{_END}" if _is_lines(sent) else sent

    def _whole(self, sent: str) -> str:
        parts, size = [sent], len(sent)
        while size < _MOST and (part := self._more(_PAUSE)):
            parts.append(part)
            size += len(part)
            if not _is_text(part):
                break
        return "".join(parts)


def _is_text(sent: str) -> bool:
    return _KEYS.search(sent) is None


def _is_lines(sent: str) -> bool:
    """Return whether this is text with a line end before its end."""
    return _is_text(sent) and _LINES.match(sent) is not None
