"""Pasted text: control characters made visible, and long pastes shown as a placeholder."""

import re
import unicodedata

from app.shell.safe_text import visible

_MOST_LINES = 20
_MOST_CHARACTERS = 2_000
_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029]")
_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
"""Classes of characters that turn the order of others around: a text would be another than it looks."""
_PLACEHOLDER = re.compile(r"\[pasted [\d,]+ (?:lines|characters) #(\d+)\]")


def plain_ends(text: str) -> str:
    r"""Return a text with its lines ended by "\n" alone."""
    return _LINE_ENDS.sub("\n", text)


def harmless(text: str) -> str:
    r"""Return a text with its lines ended by "\n" alone, and control characters shown and not obeyed.

    What only belongs to its neighbours stays, such as a soft hyphen, or the letters of a flag.
    """
    text = plain_ends(text)
    # Each character once, and not at each place: a megabyte would take the better part of a second.
    return text.translate({ord(character): visible(character) for character in set(text) if not _is_mark(character)})


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) == "Cf" and unicodedata.bidirectional(character) not in _TURNING


class Pastes:
    """The texts pasted into one prompt; long ones have a placeholder such as "[pasted 1,234 lines #1]"."""

    def __init__(self) -> None:
        self._folded: dict[str, str] = {}
        self._pasted: list[str] = []
        """Those of several lines, and long ones."""

    def take(self, text: str) -> str:
        """Return what to show for a harmless pasted text: itself, or a placeholder for it."""
        is_long = text.count("\n") >= _MOST_LINES or len(text) > _MOST_CHARACTERS
        if is_long or "\n" in text.strip("\n"):
            self._pasted.append(text)
        return self.fold(text) if is_long else text

    def fold(self, text: str) -> str:
        """Return a placeholder for a text, pasted or typed before."""
        lines = text.removesuffix("\n").count("\n") + 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        placeholder = f"[pasted {size} #{len(self._folded) + 1}]"
        self._folded[placeholder] = text
        return placeholder

    def expand(self, text: str) -> str:
        """Return a text with what its placeholders stand for; one that was changed by hand is a text like any other."""
        return _PLACEHOLDER.sub(lambda found: self._folded.get(found[0], found[0]), text)

    def in_text(self, full_text: str) -> tuple[str, ...]:
        """Return the long pasted texts that are still in an expanded text: code, more often than prose."""
        # White space at the ends of what is sent is gone, and with it perhaps that of a paste.
        texts = dict.fromkeys(text.strip() for text in self._pasted)
        return tuple(text for text in texts if text and text in full_text)

    def placeholders(self, line: str) -> list[tuple[int, int]]:
        """Return where a line has placeholders: start and end of each."""
        return [found.span() for found in _PLACEHOLDER.finditer(line) if found[0] in self._folded]
