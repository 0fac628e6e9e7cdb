"""The part of an answer that stop strings are compared with: what comes after the thoughts."""

from models.text.thoughts import BEGINNINGS, LONGEST_END, end_of_thoughts


class AfterThoughts:
    """Splits an answer, piece by piece, at the end of its thoughts; nothing is left out, marks and blanks neither."""

    def __init__(self, opening: str = "", *, may_think: bool = False) -> None:
        """Take the mark of thoughts that ends the prompt ("" for none), and whether an answer may begin with one."""
        self._held = ""
        """Text that may still become the mark of thoughts, or the last characters of thoughts."""
        self._ends = end_of_thoughts(opening) if opening.strip() else None
        self._is_over = self._ends is None and not may_think
        self.is_begun = False
        """Whether a piece came."""

    def feed(self, piece: str) -> tuple[str, str]:
        """Take more of the answer; return what is certain: text within the thoughts, and text after them."""
        self.is_begun = True
        if self._is_over:
            return "", piece
        return self._begin(piece) if self._ends is None else self._think(piece)

    def finish(self) -> str:
        """Return the text that may have become a mark: no more text will come."""
        rest, self._held = "" if self._is_over or self._ends is not None else self._held, ""
        return rest

    def _begin(self, piece: str) -> tuple[str, str]:
        self._held += piece
        start = self._held.lstrip()
        if any(mark.startswith(start) and mark != start for mark in BEGINNINGS):
            return "", ""
        text, self._held = self._held, ""
        mark = next((mark for mark in BEGINNINGS if start.startswith(mark)), None)
        if mark is None:
            self._is_over = True
            return "", text
        self._ends = end_of_thoughts(mark)
        return self._think(text)

    def _think(self, piece: str) -> tuple[str, str]:
        assert self._ends is not None
        text = (self._held + piece).encode()
        if (end := self._ends.search(text)) is None:
            self._held = text[-LONGEST_END:].decode(errors="ignore")
            return piece, ""
        self._is_over = True
        said = text[end.end() :].decode()
        return piece.removesuffix(said), said
