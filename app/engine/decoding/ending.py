"""When an answer ends, decided token by token: a round is cut exactly where plain decoding would have stopped."""

from collections.abc import Callable, Sequence
from enum import StrEnum

from models.base import Vocab
from models.text.detokenizer import AnswerText


class Finish(StrEnum):
    """Why an answer ended."""

    END = "end"
    """The model said so, with an end-of-generation token."""
    STOP = "stop"
    """A stop string was completed, or the last line that was wanted, or enough was said for who asked."""
    LENGTH = "length"
    """As many tokens as were asked for."""
    TIME = "time"
    """The time for it was over, and a line was complete."""
    CONTEXT = "context"
    """The context is full."""
    CANCELLED = "cancelled"
    """The user stopped it."""


class Ending:
    """Watches the emitted tokens of one answer, and collects their text."""

    def __init__(
        self,
        vocab: Vocab,
        *,
        stops: Sequence[str] = (),
        budget: int | None = None,
        lines: int | None = None,
        opening: str = "",
        is_complete: Callable[[Sequence[int]], bool] | None = None,
    ) -> None:
        """Take the stop strings, the most tokens to emit, and how many lines are enough; None: no such limit.

        `opening` is what the prompt began of the text; `is_complete` hears all tokens of the answer after each, and
        tells whether only an end could follow.
        """
        self._vocab = vocab
        self._left = budget
        self._is_complete = is_complete
        self._said: list[int] = []
        self.text = AnswerText(vocab, stops, lines, opening)

    def cap(self, limit: int) -> int:
        """Return the draft length that still makes sense: a round emits one token more than it drafts."""
        return limit if self._left is None else min(limit, self._left - 1)

    def cut(self, emitted: Sequence[int]) -> tuple[tuple[int, ...], Finish | None]:
        """Return the tokens that belong to the answer, and why it ends with the last of them; None: it goes on."""
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
        self._said.append(token)
        if self.text.feed(token):
            return Finish.STOP
        if self._is_complete is not None and self._is_complete(self._said):
            # A pass for the end token alone would tell nothing.
            return Finish.END
        return Finish.LENGTH if self._left == 0 else None
