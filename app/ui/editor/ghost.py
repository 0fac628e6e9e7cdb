"""The proposal at the cursor, and its rest after a part was typed or accepted."""

import re

_WORD = re.compile(r"\s*(?:\w+|[^\w\s]+)?")
_LINE = re.compile(r"\n*[^\n]*")


def first_word(ghost: str) -> str:
    """Return the beginning up to the end of a word, or of a run of other signs, with the white space before it."""
    found = _WORD.match(ghost)
    return found[0] if found else ""


def first_line(ghost: str) -> str:
    """Return the beginning up to the end of a line; a line end that comes first belongs to the line after it."""
    found = _LINE.match(ghost)
    return found[0] if found else ""


class Proposal:
    """A text for one moment of a document, which may still grow, and how much of it was typed since."""

    def __init__(self) -> None:
        self.ghost = ""
        """Rest of the proposal; "": none."""
        self.moment = -1
        """The moment it was made for."""
        self._typed = ""

    def take(self, text: str, made_for: int, now: int) -> bool:
        """Set the text proposed for a moment; return False if it does not continue the typed text.

        Where it was made for this very proposal nothing is left to show then, until a text fits again; else nothing
        changes.
        """
        if made_for == now:
            self.moment, self._typed = made_for, ""
        elif made_for != self.moment:
            return False
        fits = text.startswith(self._typed)
        self.ghost = text[len(self._typed) :] if fits else ""
        return fits

    def follow(self, typed: str) -> bool:
        """Follow a text inserted at the cursor; return True if the proposal began with it."""
        if not typed or not self.ghost.startswith(typed):
            return False
        self.ghost, self._typed = self.ghost[len(typed) :], self._typed + typed
        return True

    def clear(self) -> None:
        """Forget it."""
        self.ghost, self.moment, self._typed = "", -1, ""
