"""Escapes in pasted text, hidden from Textual's parser and from output to the terminal.

The parser takes what follows one for keys, also between the marks of a paste: a line end in it would send half of a
message. And a line of Textual's own shows what is pasted into it as it is.
"""

_BEGIN, _END = "\x1b[200~", "\x1b[201~"
"""Paste marks that a terminal sends before and after pasted text."""
_ESCAPE = "\x1b"
_HELD = "\udc1b"
"""In place of an escape; decoded bytes never have such a character."""


class PastedEscapes:
    """Finds pastes in what a terminal sends, however it is cut."""

    def __init__(self) -> None:
        self._pasting = False
        self._kept = ""
        """The end of what came last: outside a paste it was passed on, as it may be the Escape key alone."""

    @property
    def is_open(self) -> bool:
        """Whether a paste has begun and not ended."""
        return self._pasting

    def hold(self, sent: str) -> str:
        """Return what was sent, without the escapes in what is pasted; what may be half of its end comes later."""
        parts = []
        while sent:
            part, sent = self._in_paste(sent) if self._pasting else self._up_to_paste(sent)
            parts.append(part)
        return "".join(parts)

    def _up_to_paste(self, sent: str) -> tuple[str, str]:
        begun = (self._kept + sent).find(_BEGIN)
        if begun < 0:
            self._kept = (self._kept + sent)[1 - len(_BEGIN) :]
            return sent, ""
        place = begun + len(_BEGIN) - len(self._kept)
        self._pasting, self._kept = True, ""
        return sent[:place], sent[place:]

    def _in_paste(self, sent: str) -> tuple[str, str]:
        text, end, behind = (self._kept + sent).partition(_END)
        # Of what has no end the longest part that may begin one; the shortest has nothing in it.
        begins = next(size for size in range(len(_END) - 1, -1, -1) if text.endswith(_END[:size])) if not end else 0
        self._pasting, self._kept = not end, text[len(text) - begins :]
        return text[: len(text) - begins].replace(_ESCAPE, _HELD) + end, behind


def released(text: str) -> str:
    """Return a pasted text with its escapes restored, for widgets that show them as signs."""
    return text.replace(_HELD, _ESCAPE)
