"""End of an answer, decided token by token: a round is cut exactly where plain decoding would have stopped."""

from collections.abc import Callable, Sequence
from enum import StrEnum

from models.base import Vocab
from models.text.after_thoughts import AfterThoughts
from models.text.detokenizer import AnswerText


class Finish(StrEnum):
    """Reason for the end of an answer."""

    END = "end"
    """The model emitted an end-of-generation token."""
    STOP = "stop"
    """A stop string or the last wanted line was complete, or the caller had enough text."""
    LENGTH = "length"
    """The limit of tokens was reached."""
    TIME = "time"
    """The time limit was reached, and a line was complete."""
    CONTEXT = "context"
    """The context is full."""
    CANCELLED = "cancelled"
    """The user stopped it."""


class Ending:
    """End conditions and text of one answer, fed with its emitted tokens."""

    def __init__(
        self,
        vocab: Vocab,
        *,
        stops: Sequence[str] = (),
        budget: int | None = None,
        lines: int | None = None,
        opening: str = "",
        is_complete: Callable[[Sequence[int]], bool] | None = None,
        after: AfterThoughts | None = None,
    ) -> None:
        """Take the stop strings, the most tokens and the most lines; None: no such limit.

        `opening` is the beginning of the text that the prompt contains. `is_complete` receives all tokens of the answer
        after each one, and returns whether only an end can follow. `after` finds the end of the thoughts, within which
        no stop string counts; None: there are no thoughts.
        """
        self._vocab = vocab
        self._left = budget
        self._is_complete = is_complete
        self._emitted: list[int] = []
        self.text = AnswerText(vocab, stops, lines, opening, after)

    def cap(self, limit: int) -> int:
        """Return the longest useful draft: a round emits one token more than its draft has."""
        return limit if self._left is None else min(limit, self._left - 1)

    def cut(self, emitted: Sequence[int]) -> tuple[tuple[int, ...], Finish | None]:
        """Return the tokens that belong to the answer, and the reason if it ends with the last of them, else None."""
        for count, token in enumerate(emitted, start=1):
            finish = self._feed(token)
            if finish is not None:
                return tuple(emitted[:count]), finish
        return tuple(emitted), None

    def _feed(self, token: int) -> Finish | None:
        if self._vocab.is_end(token):
            return Finish.END
        if self._left is not None:
            self._left -= 1
        self._emitted.append(token)
        if self.text.feed(token):
            return Finish.STOP
        if self._is_complete is not None and self._is_complete(self._emitted):
            # A pass for the end token alone would add nothing to the text.
            return Finish.END
        return Finish.LENGTH if self._left == 0 else None
