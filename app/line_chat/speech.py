"""Output of one answer: its text to stdout, its thoughts to stderr."""

from app.engine.conversation.messages import Ended, Said
from app.shell.terminal import Terminal
from models.text.thoughts import Thoughts


class Speech:
    """Writes one answer while it is generated."""

    def __init__(self, terminal: Terminal, *, divides: bool = True) -> None:
        """Take the terminal. With `divides` thoughts are split from the answer."""
        self._terminal = terminal
        self._thoughts = Thoughts(divides=divides)
        self._thinks = False
        self._last = ""

    def hear(self, message: Said | Ended) -> None:
        """Write what is certain; with the end, all that is left, and a line end where there is none.

        An answer without text is reported by the caller.
        """
        is_last = isinstance(message, Ended)
        parts = self._thoughts.feed(message.text, last=is_last)
        self._think(parts.thoughts)
        if parts.answer:
            self._say(parts.answer)
        if is_last and self.is_unfinished:
            self._terminal.think("\n")
        elif is_last and self._last and not self._last.endswith("\n"):
            self._terminal.say("\n")

    @property
    def is_unfinished(self) -> bool:
        """Whether it went no further than thoughts."""
        return self._thinks and not self._last

    def _think(self, text: str) -> None:
        if text:
            # In words: not every terminal shows what is dim.
            self._terminal.think(text if self._thinks else f"Thoughts:\n{text}")
            self._thinks = True

    def _say(self, text: str) -> None:
        if self.is_unfinished:
            self._terminal.think("\n\nAnswer:\n")
        self._last = text
        self._terminal.say(text)
